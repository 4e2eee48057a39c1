//! The part of the realtime server that runs on one core: its connections, and the channels that
//! they are subscribed to.
//!
//! One thread owns all of it, without locks. Each connection's task reads. The pump writes
//! published messages, in turns, so that a burst to thousands of sockets delays other connections
//! by one turn at most.

mod client_event;
mod close_reason;
mod closing;
pub(crate) mod connect;
mod ending;
pub(crate) mod event_stream;
mod list_members;
pub(crate) mod manual_core;
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

/// The part of the realtime server that runs on one core.
#[derive(Debug)]
pub struct Shard {
    pub(crate) index: usize,
    pub(crate) hub: Arc<Hub>,
    pub(crate) state: RefCell<ShardState>,
    /// Notified when a connection waits for the token bucket of subscriptions.
    pacing_needed: Notify,
    /// Notified when an app's connections must be closed.
    apps_ending: Notify,
    /// Cancelled on shutdown: connections are then closed.
    draining: CancellationToken,
}

impl Shard {
    /// Returns the shard of core `index`. It delivers only while [`Shard::run`] is polled. It
    /// closes all connections when `draining` is cancelled.
    #[must_use]
    pub fn new(hub: Arc<Hub>, index: usize, draining: CancellationToken) -> Rc<Self> {
        Rc::new(Self {
            index,
            hub,
            state: RefCell::new(ShardState::new()),
            pacing_needed: Notify::new(),
            apps_ending: Notify::new(),
            draining,
        })
    }

    /// Delivers, paces subscriptions, maintains and drains until the core ends. These are not
    /// separate tasks, because a core that lost one of them to a panic would continue without
    /// delivering anything.
    pub async fn run(self: Rc<Self>) {
        tokio::join!(
            Rc::clone(&self).pump(),
            Rc::clone(&self).run_pacing(),
            Rc::clone(&self).run_maintenance(),
            Rc::clone(&self).end_apps(),
            Rc::clone(&self).drain(),
        );
    }

    /// Returns whether any app is configured.
    #[must_use]
    pub fn has_apps(&self) -> bool {
        self.hub.has_apps()
    }

    /// Returns the number of connections of this core.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.borrow().sessions.len()
    }
}

#[cfg(test)]
mod tests;
