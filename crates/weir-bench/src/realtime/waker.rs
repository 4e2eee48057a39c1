//! Wakes a thread that waits for sockets.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use super::socket;

/// Wakes a thread that waits for sockets.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> Result<Self> {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Ok(Self(Arc::new(eventfd(0, flags).context("making an eventfd")?)))
    }

    /// Registers the waker, edge-triggered: every write is reported, and it need not be read.
    pub(crate) fn register(&self, epoll: &OwnedFd, number: u64) -> Result<()> {
        socket::register(epoll, &self.0, number)
    }

    pub(crate) fn wake(&self) {
        // Fails only after 2^64 wake-ups.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}
