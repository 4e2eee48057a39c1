//! Counts of connected clients, of their connects and of closed connections.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::latency::Latencies;
use crate::tally::Faults;

/// What a subscribed client does when its connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterClose {
    /// Does not reconnect; the close counts as an error of the server.
    Fault,
    /// Does not reconnect; the close was expected.
    StayClosed,
    /// Reconnects as client libraries do.
    Reconnect,
}

/// All clients of a run.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionStats {
    /// Clients that are subscribed.
    pub(crate) live: usize,
    /// Clients that are connecting or subscribing.
    pub(crate) connecting: usize,
    /// From the first packet until the client is subscribed.
    pub(crate) connect_latencies: Latencies,
    pub(crate) last_connected: Option<Instant>,
    /// Attempts that the server rejected and that are repeated.
    pub(crate) rejected: u64,
    /// Clients that do not reconnect, because no client library would.
    pub(crate) rejected_permanently: u64,
    /// Connections of subscribed clients that the server closed.
    pub(crate) closed: u64,
    pub(crate) first_closed: Option<Instant>,
    /// Why those connections were closed.
    pub(crate) close_reasons: BTreeMap<String, u64>,
    pub(crate) faults: Faults,
}

impl ConnectionStats {
    pub(crate) fn new() -> Self {
        Self {
            live: 0,
            connecting: 0,
            connect_latencies: Latencies::new(),
            last_connected: None,
            rejected: 0,
            rejected_permanently: 0,
            closed: 0,
            first_closed: None,
            close_reasons: BTreeMap::new(),
            faults: Faults::default(),
        }
    }

    pub(crate) fn record_connected(&mut self, at: Instant, opened: Instant) {
        self.live += 1;
        self.connecting -= 1;
        self.connect_latencies.record(at - opened);
        self.last_connected = Some(at);
    }

    /// Adds the counts of other clients.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.live += other.live;
        self.connecting += other.connecting;
        self.connect_latencies.merge(&other.connect_latencies);
        self.last_connected = self.last_connected.max(other.last_connected);
        self.rejected += other.rejected;
        self.rejected_permanently += other.rejected_permanently;
        self.closed += other.closed;
        self.first_closed = self.first_closed.into_iter().chain(other.first_closed).min();
        for (close_reason, count) in &other.close_reasons {
            *self.close_reasons.entry(close_reason.clone()).or_default() += count;
        }
        self.faults.merge(&other.faults);
    }
}
