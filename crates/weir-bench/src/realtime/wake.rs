//! Wakes a thread that waits for sockets.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use super::socket;

/// Ends another thread's wait for sockets.
#[derive(Debug, Clone)]
pub(crate) struct Wake(Arc<OwnedFd>);

impl Wake {
    pub(crate) fn new() -> Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Self(Arc::new(eventfd(0, flags).context("making an eventfd")?)))
    }

    /// Watched by edges: every write is one, so nobody has to read it.
    pub(crate) fn watch(&self, epoll: &OwnedFd, number: u64) -> Result<()> {
        socket::watch(epoll, &self.0, number)
    }

    pub(crate) fn now(&self) {
        // Fails only when it is full, after 2^64 wake-ups.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}
