//! An open connection is counted for as long as its socket exists, whoever holds it.

use std::ops::{Deref, DerefMut};

use prometheus_client::metrics::gauge::Gauge;
use tokio_util::task::task_tracker::TaskTrackerToken;
use weir_base::semaphore::OwnedPermit;

/// One of `connections_max`; dropping it makes room, and lets the core's end go on.
#[derive(Debug)]
pub(super) struct Open {
    gauge: Gauge,
    _permit: OwnedPermit,
    _token: TaskTrackerToken,
}

impl Open {
    pub(super) fn new(gauge: &Gauge, permit: OwnedPermit, token: TaskTrackerToken) -> Self {
        gauge.inc();
        Self { gauge: gauge.clone(), _permit: permit, _token: token }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// A socket that counts as an open connection until it is dropped. One made by [`From`] counts
/// nowhere.
#[derive(Debug)]
pub struct Counted<T> {
    // The socket is closed before its place is given away: fields drop in order.
    socket: T,
    open: Option<Open>,
}

impl<T> Counted<T> {
    pub(super) fn with(socket: T, open: Option<Open>) -> Self {
        Self { socket, open }
    }

    pub(super) fn count_as(&mut self, open: Open) {
        self.open = Some(open);
    }

    pub(super) fn into_parts(self) -> (T, Option<Open>) {
        (self.socket, self.open)
    }
}

impl<T> From<T> for Counted<T> {
    fn from(socket: T) -> Self {
        Self { socket, open: None }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.socket
    }
}

impl<T> DerefMut for Counted<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.socket
    }
}
