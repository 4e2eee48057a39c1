//! What the client counts while it runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Answer;
use crate::latency::Latencies;
use crate::tally::Faults;

#[derive(Debug)]
pub(crate) struct HttpTally {
    /// Requests that were sent, or should have been.
    pub(crate) requests: u64,
    /// Those that had the right answer before the end of the run.
    pub(crate) in_time: u64,
    /// Those that had it at all.
    pub(crate) answered: u64,
    /// Bytes of the right answers before the end of the run, heads included.
    pub(crate) bytes_in_time: u64,
    /// Of all with a right answer, and of timeouts: to leave those out would flatter.
    pub(crate) latencies: Latencies,
    pub(crate) timeouts: u64,
    /// Answers by status.
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) faults: Faults,
    /// Requests of an open loop that found all connections in use.
    pub(crate) waited_for_connection: u64,
    /// Connections that the server closed while they were idle, found out by a request that was then repeated.
    pub(crate) reconnects: u64,
    end: Instant,
}

impl HttpTally {
    pub(super) fn new(end: Instant) -> Self {
        Self {
            requests: 0,
            in_time: 0,
            answered: 0,
            bytes_in_time: 0,
            latencies: Latencies::new(),
            timeouts: 0,
            statuses: BTreeMap::new(),
            faults: Faults::default(),
            waited_for_connection: 0,
            reconnects: 0,
            end,
        }
    }

    pub(super) fn answered(
        &mut self,
        answer: &Answer<'_>,
        latency: Duration,
        at: Instant,
        judged: Result<(), String>,
    ) {
        *self.statuses.entry(answer.status).or_default() += 1;
        if let Err(text) = judged {
            self.faults.add(1, || text);
            return;
        }
        self.answered += 1;
        if at <= self.end {
            self.in_time += 1;
            self.bytes_in_time += answer.length as u64;
        }
        self.latencies.record(latency);
    }

    pub(super) fn timed_out(&mut self, waited: Duration) {
        self.timeouts += 1;
        self.latencies.record(waited);
        self.faults.add(1, || {
            format!("no answer within {:.1} s (--timeout-seconds)", waited.as_secs_f64())
        });
    }
}
