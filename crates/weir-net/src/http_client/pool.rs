//! The idle connections of a client.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;

#[derive(Debug)]
pub(super) struct ConnectionPool {
    max: usize,
    keep_alive: Duration,
    /// With the time of their last use. A std mutex: it is held to take or return a connection. The
    /// newest is used first, because it is the least likely to have been closed.
    idle: Mutex<Vec<(Instant, Connection)>>,
}

impl ConnectionPool {
    pub(super) const fn new(max: usize, keep_alive: Duration) -> Self {
        Self { max, keep_alive, idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((last_used, connection)) = idle.pop() {
            if !connection.is_closed() && last_used.elapsed() < self.keep_alive {
                return Some(connection);
            }
        }
        None
    }

    pub(super) fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.max && !connection.is_closed() {
            idle.push((Instant::now(), connection));
        }
    }
}
