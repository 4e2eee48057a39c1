//! `GET realtime/tail`: the live events of one channel.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_stream::Stream;
use weir_base::admin_api::{AdminError, Params};
use weir_realtime::view::EventView;
use weir_realtime::watch::{Watch, WatchedEvents};

use super::errors;
use super::operated::Realtime;

/// A silent stream sends a comment this often, so that a dead connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Deserialize, JsonSchema)]
pub(super) struct TailQuery {
    app: String,
    channel: String,
}

/// The events since the last message.
#[derive(Debug, Serialize, JsonSchema)]
struct Tail {
    /// Events before these that arrived too fast and were omitted.
    left_out: u64,
    events: Vec<EventView>,
}

/// The events of a watch, at the client's pace.
struct TailStream(Watch);

pub(super) async fn open(
    State(realtime): State<Realtime>,
    Params(TailQuery { app, channel }): Params<TailQuery>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, AdminError> {
    let watch = realtime.hub.watch(&app, &channel).map_err(errors::operation_error)?;
    Ok(Sse::new(TailStream(watch)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Stream for TailStream {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let events = self.0.poll_next(context);
        events.map(|WatchedEvents { dropped: left_out, events }| {
            // A view is plain data, which always serializes.
            let event = Event::default().json_data(Tail { left_out, events });
            event.ok().map(Ok)
        })
    }
}
