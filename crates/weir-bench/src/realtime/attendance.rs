//! Who is there, how they came, and why they left.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::latency::Latencies;
use crate::tally::Faults;

/// What a client does whose connection ends although it was subscribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterClose {
    /// Stays away: a fault of the server.
    Fault,
    /// Stays away: it was to be expected.
    Stay,
    /// Comes back as client libraries do.
    Return,
}

/// All clients of a run.
#[derive(Debug, Clone)]
pub(crate) struct Attendance {
    /// Clients that are subscribed.
    pub(crate) live: usize,
    /// Clients on their way.
    pub(crate) arriving: usize,
    /// From the first packet until subscribed.
    pub(crate) arrivals: Latencies,
    pub(crate) last_arrival: Option<Instant>,
    /// Attempts that the server turned away for now.
    pub(crate) refused: u64,
    /// Clients that no client library would bring back.
    pub(crate) refused_for_good: u64,
    /// Connections of subscribed clients that the server ended.
    pub(crate) closed: u64,
    pub(crate) first_closed: Option<Instant>,
    /// How those connections ended.
    pub(crate) endings: BTreeMap<String, u64>,
    pub(crate) faults: Faults,
}

impl Attendance {
    pub(crate) fn new() -> Self {
        Self {
            live: 0,
            arriving: 0,
            arrivals: Latencies::new(),
            last_arrival: None,
            refused: 0,
            refused_for_good: 0,
            closed: 0,
            first_closed: None,
            endings: BTreeMap::new(),
            faults: Faults::default(),
        }
    }

    pub(crate) fn arrived(&mut self, at: Instant, opened: Instant) {
        self.live += 1;
        self.arriving -= 1;
        self.arrivals.record(at - opened);
        self.last_arrival = Some(at);
    }

    /// Adds other clients' attendance to that of these.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.live += other.live;
        self.arriving += other.arriving;
        self.arrivals.merge(&other.arrivals);
        self.last_arrival = self.last_arrival.max(other.last_arrival);
        self.refused += other.refused;
        self.refused_for_good += other.refused_for_good;
        self.closed += other.closed;
        self.first_closed = self.first_closed.into_iter().chain(other.first_closed).min();
        for (ending, count) in &other.endings {
            *self.endings.entry(ending.clone()).or_default() += count;
        }
        self.faults.merge(&other.faults);
    }
}
