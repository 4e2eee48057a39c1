//! Messages as subscribers receive them, for live views and the console.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_base::clock::Timestamp;

use crate::broker::Broker as _;
use crate::frame::Frame;
use crate::hub::Hub;

/// One message of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventView {
    /// When it was published, in seconds since the Unix epoch.
    pub at: f64,
    /// The event's name.
    pub event: String,
    /// The event's data as text. Empty if it has none.
    pub data: String,
    /// The sender's user id, for client events on presence channels.
    pub user_id: Option<String>,
    /// Offset in the channel's history, or None if it is not stored there.
    pub offset: Option<u64>,
    /// Bytes that each subscriber receives.
    pub bytes: usize,
}

/// The fields that are read from a message.
#[derive(Deserialize)]
struct EventFields<'a> {
    event: String,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    user_id: Option<String>,
    offset: Option<u64>,
}

impl EventView {
    /// Parses a message that this server wrote.
    pub(crate) fn new(at: Timestamp, frame: &Frame) -> Option<Self> {
        let EventFields { event, data, user_id, offset } =
            serde_json::from_slice(frame.json()).ok()?;
        let data = data.map_or_else(String::new, text);
        let bytes = frame.wire().len();
        Some(Self { at: at.as_secs_f64(), event, data, user_id, offset, bytes })
    }
}

/// Returns the content of a JSON string, or other JSON unchanged.
fn text(json: &RawValue) -> String {
    serde_json::from_str(json.get()).unwrap_or_else(|_| json.get().to_owned())
}

impl Hub {
    /// Returns at most `events_max` events of a channel's history, the newest first. Returns none
    /// if the channel does not exist.
    #[must_use]
    pub fn history(&self, app_id: &str, channel: &str, events_max: usize) -> Vec<EventView> {
        let app = self.app_by_id(app_id);
        let history = app.and_then(|app| self.broker.history(&app, channel, 0, events_max));
        let entries = history.map(|(_, entries)| entries).unwrap_or_default();
        entries.iter().rev().filter_map(|entry| EventView::new(entry.at, &entry.frame)).collect()
    }
}
