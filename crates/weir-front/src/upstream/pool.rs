//! The idle connections of a core to workers. A connection never moves to another core.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use weir_base::clock::Timestamp;

use super::connection::UpstreamConnection;
use crate::app::UpstreamWorker;

/// The idle connections of one core; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleConnections(Rc<RefCell<HashMap<u64, Idle>>>);

#[derive(Debug)]
struct Idle {
    worker: Weak<UpstreamWorker>,
    #[expect(clippy::vec_box, reason = "they are boxed wherever they go")]
    connections: Vec<Box<UpstreamConnection>>,
}

impl IdleConnections {
    /// Takes the idle connection to `worker` that was used last, so that the others can expire.
    /// Connections that have been idle since before `since` are not used.
    pub(crate) fn take_idle(
        &self,
        worker: &UpstreamWorker,
        since: Timestamp,
    ) -> Option<Box<UpstreamConnection>> {
        let mut pool = self.0.borrow_mut();
        let idle = pool.get_mut(&worker.serial)?;
        while let Some(connection) =
            idle.connections.pop_if(|connection| connection.idle_since >= since)
        {
            if connection.socket.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// Returns a connection to the pool after an exchange that ended `now`. If the worker has
    /// `idle_max` idle connections, replaces the oldest of them.
    pub(crate) fn put_back(
        &self,
        worker: &Arc<UpstreamWorker>,
        mut connection: Box<UpstreamConnection>,
        idle_max: usize,
        now: Timestamp,
    ) {
        if idle_max == 0 {
            return;
        }
        connection.idle_since = now;
        let mut pool = self.0.borrow_mut();
        let idle = pool
            .entry(worker.serial)
            .or_insert_with(|| Idle { worker: Arc::downgrade(worker), connections: Vec::new() });
        if idle.connections.len() < idle_max {
            idle.connections.push(connection);
        } else if let Some(oldest) = idle.connections.first_mut() {
            // Replaces the oldest: a request that may not be repeated needs a recently used one.
            *oldest = connection;
            idle.connections.rotate_left(1);
        }
    }

    /// Drops connections that a worker has closed, and those of removed workers.
    pub(crate) fn forget_closed(&self) {
        self.0.borrow_mut().retain(|_, idle| {
            idle.connections.retain(|connection| connection.socket.is_quiet());
            idle.worker.strong_count() > 0 && !idle.connections.is_empty()
        });
    }
}
