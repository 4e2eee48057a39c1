//! A channel's history as plain JSON, for clients without WebSockets. This is an extension of Weir.

use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;

use super::SignedCall;
use super::response::ApiFailure;
use crate::broker::Broker as _;
use crate::pusher::channel::ChannelName;
use crate::pusher::position::{ChannelPosition, Epoch};
use crate::shard::Shard;

/// The most events of one response. `limit` may lower it.
const EVENTS_MAX: usize = 1_000;
/// How often, and how many times, a request looks for the copy that it waits for: two seconds.
const COPY_INTERVAL: Duration = Duration::from_millis(5);
const COPY_ATTEMPTS_MAX: usize = 400;

#[derive(Serialize)]
struct HistoryResponse<'a> {
    epoch: Option<Epoch>,
    offset: u64,
    /// Whether the events are all of those after `after`.
    complete: bool,
    events: Vec<&'a RawValue>,
}

impl Shard {
    /// Handles `GET /apps/ID/channels/NAME/history?after=EPOCH:OFFSET&limit=N`. Returns the newest
    /// events, oldest first, each as subscribers received it.
    pub(super) async fn history(
        &self,
        call: &SignedCall<'_>,
        name: &ChannelName,
    ) -> Result<Vec<u8>, ApiFailure> {
        let after = parse::<ChannelPosition>(call.query.get("after"), "after")?;
        let limit = parse::<usize>(call.query.get("limit"), "limit")?.unwrap_or(EVENTS_MAX);
        let after_offset = after.map_or(0, |after| after.offset);
        let limit = limit.min(EVENTS_MAX);
        self.await_copy(call, name).await?;
        let found = self.hub.broker.history(call.app, name.as_str(), after_offset, limit);
        let (position, entries) = match found {
            Some((position, entries)) => (Some(position), entries),
            None => (None, Vec::new()),
        };
        let offset = position.map_or(0, |position| position.offset);
        let is_same = after.is_none_or(|after| Some(after.epoch) == position.map(|p| p.epoch));
        let history = HistoryResponse {
            epoch: position.map(|position| position.epoch),
            offset,
            complete: is_same && after_offset + entries.len() as u64 == offset,
            events: entries.iter().filter_map(|entry| as_json(entry.frame.json())).collect(),
        };
        serde_json::to_vec(&history)
            .map_err(|error| ApiFailure::new(StatusCode::INTERNAL_SERVER_ERROR, error))
    }
}

impl Shard {
    /// Waits for the copy of a presence channel.
    pub(super) async fn await_members(
        &self,
        call: &SignedCall<'_>,
        name: &ChannelName,
    ) -> Result<(), ApiFailure> {
        if name.kind().has_presence() { self.await_copy(call, name).await } else { Ok(()) }
    }

    /// Waits until this node has a copy of the channel of the shared log, if there is one.
    pub(super) async fn await_copy(
        &self,
        call: &SignedCall<'_>,
        name: &ChannelName,
    ) -> Result<(), ApiFailure> {
        for _ in 0..COPY_ATTEMPTS_MAX {
            if self.hub.broker.prepare_history(call.app, name)? {
                return Ok(());
            }
            tokio::time::sleep(COPY_INTERVAL).await;
        }
        let text = "Redis did not return the channel's history in time; try again";
        Err(ApiFailure::new(StatusCode::SERVICE_UNAVAILABLE, text))
    }
}

fn as_json(json: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(json).ok()
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(
    value: Option<&str>,
    name: &str,
) -> Result<Option<T>, ApiFailure> {
    let parsed = value.map(str::parse).transpose();
    parsed.map_err(|error| ApiFailure::new(StatusCode::BAD_REQUEST, format!("{name}: {error}")))
}
