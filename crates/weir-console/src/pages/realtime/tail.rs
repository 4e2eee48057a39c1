//! `GET /channel/tail`: a channel's events as they arrive, in a few messages a second at most. A
//! message has the number of omitted events.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_stream::Stream;
use tokio_stream::wrappers::WatchStream;
use weir_base::clock::{Clock, Timestamp};
use weir_realtime::watch::{Watch, WatchedEvents};

use super::super::request::{PageRequest, PageResult};
use super::ChannelNameQuery;
use super::channel::EventRow;
use crate::live::{KEEP_ALIVE, Latest, STREAM_AGE_MAX};
use crate::page_error::PageError;

/// The interval between messages to a browser.
const PACE: Duration = Duration::from_millis(250);

/// The events since the last message.
#[derive(Serialize)]
struct TailMessage {
    /// Events before these that arrived too fast.
    left_out: u64,
    events: Vec<EventRow>,
}

/// The stream of one browser.
struct ChannelTail {
    watch: Watch,
    /// Notifies of the console's shutdown.
    latest: WatchStream<Latest>,
    clock: Clock,
    ends_at: Timestamp,
    pause: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

pub(crate) async fn open(request: PageRequest) -> PageResult {
    let ChannelNameQuery { app, name } = request.query()?;
    let console = &request.console;
    let watch = console.realtime()?.hub.watch(&app, &name)?;
    let live = &console.deps.live;
    let clock = console.deps.clock.clone();
    let tail = ChannelTail {
        watch,
        latest: live.watch(),
        ends_at: clock.now() + STREAM_AGE_MAX,
        clock,
        pause: None,
        _permit: live.permit().ok_or(PageError::TooManyStreams)?,
    };
    Ok(Sse::new(tail).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

impl ChannelTail {
    fn has_ended(&mut self, context: &mut Context<'_>) -> bool {
        while let Poll::Ready(latest) = Pin::new(&mut self.latest).poll_next(context) {
            if matches!(latest, None | Some(Latest::Ended)) {
                return true;
            }
        }
        self.clock.now() >= self.ends_at
    }
}

impl Stream for ChannelTail {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended(context) {
            return Poll::Ready(None);
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let WatchedEvents { dropped: left_out, events } = ready!(self.watch.poll_next(context));
        self.pause = Some(Box::pin(tokio::time::sleep(PACE)));
        let events = events.iter().map(EventRow::new).collect();
        // A message is plain data, which always serializes.
        let event = Event::default().event("seen").json_data(TailMessage { left_out, events });
        Poll::Ready(event.ok().map(Ok))
    }
}
