//! An open connection is counted for as long as its socket exists, whichever task holds it.

use std::ops::{Deref, DerefMut};

use prometheus_client::metrics::gauge::Gauge;
use tokio_util::task::task_tracker::TaskTrackerToken;
use weir_base::semaphore::OwnedPermit;

use crate::client::{ClientRequest, UsageShare};

/// One of `connections_max`; dropping it makes room, and lets the core's end go on.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    gauge: Gauge,
    _permit: OwnedPermit,
    _token: TaskTrackerToken,
    /// None: of no particular client.
    // Boxed: sockets are handed on, and most places have room for a pointer.
    _share: Option<Box<UsageShare>>,
    /// What it became, if that counts for its client.
    client: Option<ClientRequest>,
}

impl ConnectionPermit {
    pub(super) fn new(
        gauge: &Gauge,
        permit: OwnedPermit,
        token: TaskTrackerToken,
        share: Option<Box<UsageShare>>,
    ) -> Self {
        gauge.inc();
        let gauge = gauge.clone();
        Self { gauge, _permit: permit, _token: token, _share: share, client: None }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// A socket that counts as an open connection until it is dropped. One made by [`From`] counts
/// nowhere.
#[derive(Debug)]
pub struct CountedSocket<T> {
    // The socket is closed before its place is given away: fields drop in order.
    socket: T,
    open: Option<ConnectionPermit>,
}

impl<T> CountedSocket<T> {
    pub(super) fn with(socket: T, open: Option<ConnectionPermit>) -> Self {
        Self { socket, open }
    }

    pub(super) fn count_as(&mut self, open: ConnectionPermit) {
        self.open = Some(open);
    }

    /// Its upgrade counts for a client for as long.
    pub(super) fn hold(&mut self, client: ClientRequest) {
        if let Some(open) = &mut self.open {
            open.client = Some(client);
        }
    }

    pub(super) fn into_parts(self) -> (T, Option<ConnectionPermit>) {
        (self.socket, self.open)
    }
}

impl<T> From<T> for CountedSocket<T> {
    fn from(socket: T) -> Self {
        Self { socket, open: None }
    }
}

impl<T> Deref for CountedSocket<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.socket
    }
}

impl<T> DerefMut for CountedSocket<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.socket
    }
}
