//! Messages as subscribers get them, for who looks on.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use crate::broker::Broker as _;
use crate::frame::Frame;
use crate::hub::Hub;

/// One message of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventView {
    /// When it was published: seconds since the Unix epoch.
    pub at: f64,
    /// Its name.
    pub event: String,
    /// Its data, as text; empty where it has none.
    pub data: String,
    /// Who sent it, of clients' events on presence channels.
    pub user_id: Option<String>,
    /// Its place in the channel's history; None: history doesn't keep it.
    pub offset: Option<u64>,
    /// Bytes that each subscriber gets.
    pub bytes: usize,
}

/// What a message is read for.
#[derive(Deserialize)]
struct EventFields<'a> {
    event: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    user_id: Option<String>,
    offset: Option<u64>,
}

impl EventView {
    /// Reads a message that this server wrote.
    pub(crate) fn of(at: Timestamp, frame: &Frame) -> Option<Self> {
        let EventFields { event, data, user_id, offset } =
            serde_json::from_slice(frame.json()).ok()?;
        let data = data.map_or_else(String::new, text);
        let bytes = frame.wire().len();
        Some(Self { at: at.as_secs_f64(), event, data, user_id, offset, bytes })
    }
}

/// What a JSON string says; other JSON as it stands.
fn text(json: &RawValue) -> String {
    serde_json::from_str(json.get()).unwrap_or_else(|_| json.get().to_owned())
}

impl Hub {
    /// The newest events that a channel's history keeps, at most `events_max`, the newest first.
    /// None of a channel that nobody knows.
    #[must_use]
    pub fn history(&self, app_id: &str, channel: &str, events_max: usize) -> Vec<EventView> {
        let app = self.app_by_id(app_id);
        let history = app.and_then(|app| self.broker.history(&app, channel, 0, events_max));
        let entries = history.map(|(_, entries)| entries).unwrap_or_default();
        entries.iter().rev().filter_map(|entry| EventView::of(entry.at, &entry.frame)).collect()
    }
}
