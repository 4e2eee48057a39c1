//! What the client counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::answer::Answer;
use super::schedule::Request;
use super::shares::Shares;
use crate::latency::Latencies;
use crate::tally::Faults;

#[derive(Debug)]
pub(crate) struct FrontTally {
    /// Requests that were sent, or should have been.
    pub(crate) requests: u64,
    /// Those that had the right answer before the end of the run.
    pub(crate) in_time: u64,
    /// Those that had it at all.
    pub(crate) answered: u64,
    /// Of all with a right answer, and of timeouts: to leave those out would flatter.
    pub(crate) latencies: Latencies,
    /// Service times and latencies of those with a right answer.
    pub(crate) service: Duration,
    pub(crate) waited: Duration,
    /// Service times of all requests.
    pub(crate) service_asked: Duration,
    pub(crate) timeouts: u64,
    /// Answers that are not 200, by status.
    pub(crate) refusals: BTreeMap<u16, u64>,
    pub(crate) faults: Faults,
    pub(crate) shares: Shares,
    pub(crate) unnamed: u64,
    /// Requests of an open loop that found all connections in use.
    pub(crate) waited_for_connection: u64,
    /// Connections that the server closed while they were idle, found out by a request that was then repeated.
    pub(crate) reconnects: u64,
    end: Instant,
}

impl FrontTally {
    pub(crate) fn new(end: Instant) -> Self {
        Self {
            requests: 0,
            in_time: 0,
            answered: 0,
            latencies: Latencies::new(),
            service: Duration::ZERO,
            waited: Duration::ZERO,
            service_asked: Duration::ZERO,
            timeouts: 0,
            refusals: BTreeMap::new(),
            faults: Faults::default(),
            shares: Shares::default(),
            unnamed: 0,
            waited_for_connection: 0,
            reconnects: 0,
            end,
        }
    }

    pub(crate) fn asked(&mut self, request: &Request) {
        self.requests += 1;
        self.service_asked += request.service;
    }

    pub(crate) fn answered(&mut self, request: &Request, answer: &Answer<'_>, at: Instant) {
        match answer.worker {
            Some(worker) => self.shares.count(worker),
            None => self.unnamed += 1,
        }
        if answer.status != 200 {
            *self.refusals.entry(answer.status).or_default() += 1;
            self.faults.add(1, || format!("an answer was {}, not 200", answer.status));
            return;
        }
        let latency = at.saturating_duration_since(request.intended);
        self.answered += 1;
        self.in_time += u64::from(at <= self.end);
        self.latencies.record(latency);
        self.service += request.service;
        self.waited += latency;
    }

    pub(crate) fn timed_out(&mut self, request: &Request, at: Instant) {
        let waited = at.saturating_duration_since(request.intended);
        self.timeouts += 1;
        self.latencies.record(waited);
        self.faults.add(1, || {
            format!("no answer within {:.1} s (--timeout-seconds)", waited.as_secs_f64())
        });
    }
}
