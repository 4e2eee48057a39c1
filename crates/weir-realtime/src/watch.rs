//! Live views of a channel for operators, which must never slow down publishers.
//!
//! Each view has its own bounded queue. When it is full, the oldest event is dropped and counted.
//! On a channel without views, publishing only checks an empty list.

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

/// A live view of a channel. Dropping it ends the view.
#[derive(Debug)]
pub struct Watch {
    hub: Arc<Hub>,
    app: Arc<App>,
    channel: Arc<Channel>,
    queue: Arc<WatchQueue>,
}

/// Events since the previous call.
#[derive(Clone, Debug, Default)]
pub struct WatchedEvents {
    /// Number of earlier events that were dropped because they arrived too fast.
    pub dropped: u64,
    /// The events, oldest first.
    pub events: Vec<EventView>,
}

impl Hub {
    /// Opens a live view of everything that a channel's subscribers receive from now on. Creates
    /// the channel if it does not exist, so that a view can wait for its first event.
    ///
    /// # Errors
    /// Returns an error if the app does not exist, the channel's name is invalid, or the limit of
    /// live views is reached.
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
        match self.broker.local.add_watcher(&app, &name, &queue) {
            Ok(channel) => {
                // If Redis does not respond, the copy is requested when it does.
                let _ = self.broker.prepare_history(&app, &name);
                Ok(Watch { hub: Arc::clone(self), app, channel, queue })
            }
            Err(error) => {
                self.watchers.fetch_sub(1, Ordering::Relaxed);
                Err(error.into())
            }
        }
    }
}

impl Watch {
    /// Waits for the next events.
    pub async fn next(&mut self) -> WatchedEvents {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next events. Pending while there are none.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<WatchedEvents> {
        self.queue.poll_take(context).map(|(dropped, frames)| {
            let view = |(at, frame): &(Timestamp, Frame)| EventView::new(*at, frame);
            WatchedEvents { dropped, events: frames.iter().filter_map(view).collect() }
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.watchers.fetch_sub(1, Ordering::Relaxed);
        self.hub.broker.local.remove_watcher(&self.app, &self.channel, &self.queue);
    }
}

#[cfg(test)]
mod tests;
