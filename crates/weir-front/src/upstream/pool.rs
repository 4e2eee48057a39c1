//! A core's idle connections to workers. A connection stays on its core.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use weir_base::clock::Timestamp;

use super::connection::UpstreamConnection;
use crate::app::UpstreamWorker;

/// The idle connections of one core; clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleConnections(Rc<RefCell<HashMap<u64, Idle>>>);

#[derive(Debug)]
struct Idle {
    worker: Weak<UpstreamWorker>,
    #[expect(clippy::vec_box, reason = "they are boxed wherever they go")]
    connections: Vec<Box<UpstreamConnection>>,
}

impl IdleConnections {
    /// An idle connection to `worker`: the one that was used last, so the others can end. `since`: not
    /// one that has been idle for longer.
    pub(crate) fn idle(
        &self,
        worker: &UpstreamWorker,
        since: Timestamp,
    ) -> Option<Box<UpstreamConnection>> {
        let mut pool = self.0.borrow_mut();
        let idle = pool.get_mut(&worker.serial)?;
        while let Some(connection) = idle.connections.pop_if(|it| it.idle_since >= since) {
            if connection.socket.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose response has ended `now`, if fewer than `idle_max` are.
    pub(crate) fn keep(
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
            // A request that may not be repeated takes none that has been idle for long.
            *oldest = connection;
            idle.connections.rotate_left(1);
        }
    }

    /// Lets go of connections that their worker has closed, and of workers that are no more.
    pub(crate) fn forget_closed(&self) {
        self.0.borrow_mut().retain(|_, idle| {
            idle.connections.retain(|connection| connection.socket.is_quiet());
            idle.worker.strong_count() > 0 && !idle.connections.is_empty()
        });
    }
}
