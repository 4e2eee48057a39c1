//! What one core does: its connections, and the channels that they are subscribed to.
//!
//! One thread owns all of it; nothing is locked. A connection's task reads; the pump writes what
//! others publish, in turns, so that a burst to thousands of sockets never holds up who reads,
//! pings or connects for longer than a turn.

pub(crate) mod by_hand;
mod client_event;
mod close_reason;
mod closing;
pub(crate) mod connect;
mod ending;
pub(crate) mod event_stream;
mod list_members;
mod messages;
mod pacing;
mod pump;
mod sign_in;
mod state;
mod subscribe;
mod task;
mod upkeep;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::state::ShardState;
use crate::hub::Hub;

/// One core's part of realtime.
#[derive(Debug)]
pub struct Shard {
    pub(crate) index: usize,
    pub(crate) hub: Arc<Hub>,
    pub(crate) state: RefCell<ShardState>,
    /// Somebody waits for the bucket of subscriptions.
    paced: Notify,
    /// An app's connections are to end.
    apps_ending: Notify,
    /// Weir ends: connections are closed.
    draining: CancellationToken,
}

impl Shard {
    /// The core's part; it delivers only while [`Shard::run`] is polled. `draining` says when
    /// connections are to be closed.
    #[must_use]
    pub fn new(hub: Arc<Hub>, index: usize, draining: CancellationToken) -> Rc<Self> {
        Rc::new(Self {
            index,
            hub,
            state: RefCell::new(ShardState::new()),
            paced: Notify::new(),
            apps_ending: Notify::new(),
            draining,
        })
    }

    /// The core's own work, until its end: delivering, pacing, upkeep, draining. Not tasks of their
    /// own: a core that lost one of them by a panic would go on without delivering anything.
    pub async fn run(self: Rc<Self>) {
        tokio::join!(
            Rc::clone(&self).pump(),
            Rc::clone(&self).pace(),
            Rc::clone(&self).run_maintenance(),
            Rc::clone(&self).end_apps(),
            Rc::clone(&self).drain(),
        );
    }

    /// Whether there is any app to serve.
    #[must_use]
    pub fn has_apps(&self) -> bool {
        self.hub.has_apps()
    }

    /// How many connections the core has.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.borrow().sessions.len()
    }
}

#[cfg(test)]
mod tests;
