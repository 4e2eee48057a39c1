//! Counts a connection as open for as long as its socket exists, whichever task owns it.

use std::ops::{Deref, DerefMut};

use prometheus_client::metrics::gauge::Gauge;
use tokio_util::task::task_tracker::TaskTrackerToken;
use weir_base::semaphore::OwnedPermit;

use crate::client::{ClientRequest, UsageShare};

/// A permit of `connections_max`. A core's shutdown waits until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    gauge: Gauge,
    _permit: OwnedPermit,
    _token: TaskTrackerToken,
    /// None: no particular client.
    // Boxed: sockets are moved often, so they should be small.
    _share: Option<Box<UsageShare>>,
    /// The upgrade that the connection became, if it counts for its client.
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

/// A socket that counts as an open connection until it is dropped. One made by [`From`] is not
/// counted.
#[derive(Debug)]
pub struct CountedSocket<T> {
    // Before `open`, because fields drop in order: the socket is closed before its permit is
    // released.
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

    /// Makes an upgrade count for a client until the socket is dropped.
    pub(super) fn count_for_client(&mut self, client: ClientRequest) {
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
