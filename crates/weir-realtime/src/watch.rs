//! Looking at one channel as it goes on: for people, who must never slow down who publishes.
//!
//! Each watcher has a queue of its own, bounded; when it is full the oldest event goes, and is
//! counted. A channel that nobody watches pays for looking at an empty list.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use weir_base::clock::Timestamp;

use crate::app::App;
use crate::channel::{Channel, WatchQueue};
use crate::frame::Frame;
use crate::hub::Hub;
use crate::metrics::LimitKind;
use crate::operations::OperationError;
use crate::view::EventView;

/// Somebody who looks at a channel. Dropping it ends that.
#[derive(Debug)]
pub struct Watch {
    hub: Arc<Hub>,
    app: Arc<App>,
    channel: Arc<Channel>,
    queue: Arc<WatchQueue>,
}

/// What came since the last look.
#[derive(Clone, Debug, Default)]
pub struct WatchedEvents {
    /// Events that came before these and were left out, because they came too fast.
    pub left_out: u64,
    /// The newest, oldest first.
    pub events: Vec<EventView>,
}

impl Hub {
    /// Looks at everything that subscribers of a channel are sent from now on. The channel is made
    /// if it is not there: somebody may wait for its first event.
    ///
    /// # Errors
    /// There is no such app, no channel can have that name, or too many look already.
    pub fn watch(self: &Arc<Self>, app: &str, channel: &str) -> Result<Watch, OperationError> {
        let app = self.app_named(app)?;
        let name = self.channel_name(channel)?;
        let max = self.settings().limits.watchers_max;
        if self.watchers.fetch_add(1, Ordering::Relaxed) >= max {
            self.watchers.fetch_sub(1, Ordering::Relaxed);
            self.metrics.limit_hit(LimitKind::Watchers);
            return Err(OperationError::TooManyWatchers { max });
        }
        let events_max = self.settings().limits.watch_events_max;
        let queue = Arc::new(WatchQueue::new(events_max));
        match self.broker.add_watcher(&app, &name, &queue) {
            Ok(channel) => Ok(Watch { hub: Arc::clone(self), app, channel, queue }),
            Err(error) => {
                self.watchers.fetch_sub(1, Ordering::Relaxed);
                Err(error.into())
            }
        }
    }
}

impl Watch {
    /// Waits for what comes.
    pub async fn next(&mut self) -> WatchedEvents {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same. Pending while there is nothing.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<WatchedEvents> {
        self.queue.poll_take(context).map(|(left_out, frames)| {
            let view = |(at, frame): &(Timestamp, Frame)| EventView::of(*at, frame);
            WatchedEvents { left_out, events: frames.iter().filter_map(view).collect() }
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.watchers.fetch_sub(1, Ordering::Relaxed);
        self.hub.broker.remove_watcher(&self.app, &self.channel, &self.queue);
    }
}

#[cfg(test)]
mod tests;
