//! Counters of the client.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Response;
use crate::latency::Latencies;
use crate::tally::Faults;

#[derive(Debug)]
pub(crate) struct HttpTally {
    /// Requests that were due.
    pub(crate) requests: u64,
    /// Requests with a correct response before the end of the run.
    pub(crate) successful_in_time: u64,
    /// Requests with a correct response.
    pub(crate) successful: u64,
    /// Bytes of the correct responses before the end of the run, heads included.
    pub(crate) bytes_in_time: u64,
    /// Latencies of correct responses and of timeouts.
    pub(crate) latencies: Latencies,
    pub(crate) timeouts: u64,
    /// Responses by status.
    pub(crate) statuses: BTreeMap<u16, u64>,
    pub(crate) faults: Faults,
    /// Requests of an open loop that had to wait for a connection.
    pub(crate) waited_for_connection: u64,
    /// Connections that the server closed while they were idle, so that a request was repeated.
    pub(crate) reconnects: u64,
    end: Instant,
}

impl HttpTally {
    pub(super) fn new(end: Instant) -> Self {
        Self {
            requests: 0,
            successful_in_time: 0,
            successful: 0,
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

    pub(super) fn record_response(
        &mut self,
        response: &Response<'_>,
        latency: Duration,
        at: Instant,
        outcome: Result<(), String>,
    ) {
        *self.statuses.entry(response.status).or_default() += 1;
        if let Err(text) = outcome {
            self.faults.add(1, || text);
            return;
        }
        self.successful += 1;
        if at <= self.end {
            self.successful_in_time += 1;
            self.bytes_in_time += response.length as u64;
        }
        self.latencies.record(latency);
    }

    pub(super) fn record_timeout(&mut self, waited: Duration) {
        self.timeouts += 1;
        self.latencies.record(waited);
        self.faults.add(1, || {
            format!("no answer within {:.1} s (--timeout-seconds)", waited.as_secs_f64())
        });
    }
}
