//! Connections that are kept for the next request.

use std::sync::{Mutex, PoisonError};

use super::connection::Connection;

#[derive(Debug)]
pub(super) struct Pool {
    max: usize,
    /// std: held to take or to give back. The newest is used first: it is the least likely to have
    /// been closed.
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(super) const fn new(max: usize) -> Self {
        Self { max, idle: Mutex::new(Vec::new()) }
    }

    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if !connection.is_closed() {
                return Some(connection);
            }
        }
        None
    }

    pub(super) fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.max && !connection.is_closed() {
            idle.push(connection);
        }
    }
}
