//! What an HTTP connection is waiting for, and until when.

use std::cell::{Cell, RefCell};

use hyper::Request;
use tokio::time::Instant;

use super::Limits;
use crate::metrics::Limit;

/// Shared by the socket, the requests and the connection's deadline.
#[derive(Debug)]
pub(super) struct Progress {
    /// A request is routed and its answer's body not yet at its end.
    in_hand: Cell<bool>,
    /// Since when there has been no request in hand.
    idle_since: Cell<Instant>,
    /// The first bytes behind the last request.
    head_since: Cell<Option<Instant>>,
    /// Since when the client has taken no byte of what waits for it.
    blocked_since: Cell<Option<Instant>>,
    /// The kernel has everything that hyper has written.
    is_flushed: Cell<bool>,
    /// A request that makes the connection something else than HTTP.
    upgrade: RefCell<Option<Box<Request<()>>>>,
}

/// When a connection's patience ends, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) limit: Limit,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            in_hand: Cell::new(false),
            idle_since: Cell::new(Instant::now()),
            head_since: Cell::new(None),
            blocked_since: Cell::new(None),
            is_flushed: Cell::new(true),
            upgrade: RefCell::new(None),
        }
    }

    pub(super) fn read(&self) {
        if !self.in_hand.get() && self.head_since.get().is_none() {
            self.head_since.set(Some(Instant::now()));
        }
    }

    pub(super) fn begin_request(&self) {
        self.in_hand.set(true);
        self.head_since.set(None);
    }

    pub(super) fn end_request(&self) {
        self.in_hand.set(false);
        self.idle_since.set(Instant::now());
    }

    pub(super) fn begin_write(&self) {
        self.is_flushed.set(false);
    }

    pub(super) fn wrote(&self, is_taken: bool) {
        if is_taken {
            self.blocked_since.set(None);
        } else if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(Instant::now()));
        }
    }

    pub(super) fn flushed(&self) {
        self.is_flushed.set(true);
    }

    pub(super) fn ask_for_upgrade(&self, request: Box<Request<()>>) {
        self.upgrade.replace(Some(request));
    }

    /// A request for an upgrade, once all earlier answers are out.
    pub(super) fn take_upgrade(&self) -> Option<Box<Request<()>>> {
        if self.is_flushed.get() { self.upgrade.take() } else { None }
    }

    /// None: as long as the service takes.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Deadline> {
        let (since, patience, limit) = if let Some(since) = self.blocked_since.get() {
            (since, limits.write_timeout, Limit::WriteTimeout)
        } else if self.in_hand.get() {
            return None;
        } else if let Some(since) = self.head_since.get() {
            (since, limits.head_timeout, Limit::HeadTimeout)
        } else {
            (self.idle_since.get(), limits.idle_timeout, Limit::IdleTimeout)
        };
        Some(Deadline { at: since + patience, limit })
    }
}
