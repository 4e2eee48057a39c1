//! `GET /channel/tail`: a channel's events as they come. At most a few messages a second, whatever
//! the channel does; what is left out is said.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;
use weir_base::clock::{Clock, Timestamp};
use weir_realtime::watch::{Watch, WatchedEvents};

use super::super::PageError;
use super::channel::EventRow;
use crate::console::Console;
use crate::live::{KEEP_ALIVE, Latest, STREAM_AGE_MAX};

/// Between two messages to a browser: as fast as an eye follows.
const PACE: Duration = Duration::from_millis(250);

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    app: String,
    name: String,
}

/// What came since the last message.
#[derive(Serialize)]
struct Stretch {
    /// Events before these that came too fast.
    left_out: u64,
    events: Vec<EventRow>,
}

/// The stream of one browser.
struct Tail {
    watch: Watch,
    /// Says when the console ends.
    latest: WatchStream<Latest>,
    clock: Clock,
    ends_at: Timestamp,
    pause: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

pub(crate) async fn open(
    State(console): State<Arc<Console>>,
    Query(Wanted { app, name }): Query<Wanted>,
) -> Result<impl IntoResponse, PageError> {
    let watch = super::of(&console)?.hub.watch(&app, &name)?;
    let live = &console.deps.live;
    let clock = console.deps.clock.clone();
    let tail = Tail {
        watch,
        latest: live.watch(),
        ends_at: clock.now() + STREAM_AGE_MAX,
        clock,
        pause: None,
        _permit: live.permit().ok_or(PageError::TooManyStreams)?,
    };
    Ok(Sse::new(tail).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Tail {
    fn has_ended(&mut self, context: &mut Context<'_>) -> bool {
        while let Poll::Ready(latest) = Pin::new(&mut self.latest).poll_next(context) {
            if matches!(latest, None | Some(Latest::Ended)) {
                return true;
            }
        }
        self.clock.now() >= self.ends_at
    }
}

impl Stream for Tail {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended(context) {
            return Poll::Ready(None);
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let WatchedEvents { left_out, events } = ready!(self.watch.poll_next(context));
        self.pause = Some(Box::pin(tokio::time::sleep(PACE)));
        let events = events.iter().map(EventRow::of).collect();
        // A stretch is plain data, which is always JSON.
        let event = Event::default().event("seen").json_data(Stretch { left_out, events });
        Poll::Ready(event.ok().map(Ok))
    }
}
