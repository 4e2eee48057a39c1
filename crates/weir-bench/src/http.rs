//! HTTP/1.1 load: one thread, many connections, a closed or an open loop.
//!
//! A bench creates the requests and checks the responses ([`Load`]). Timing, latencies and errors are the same for
//! all benches.

mod client;
mod connection;
mod pace;
mod report;
pub(crate) mod response;
pub(crate) mod single_request;
mod table;
mod tally;
mod target;
mod url;

use std::time::Duration;

use crate::rounds::JudgedBy;

#[cfg(test)]
pub(crate) use self::pace::Pace;
pub(crate) use self::report::{Figures, round_to, rounded, to_f64, us_per_operation};
pub(crate) use self::response::Response;
pub(crate) use self::target::{HttpRun, Target};
pub(crate) use self::url::HttpUrl;
pub(crate) use self::{table::to_markdown as table_of, target::run};

/// The requests of a bench.
pub(crate) trait Load {
    /// What a request asks for, as needed to check its response.
    type Item;

    fn next(&mut self) -> Self::Item;

    /// Appends the whole request to `out`: at most [`REQUEST_BYTES_MAX`].
    fn write(&self, item: &Self::Item, out: &mut Vec<u8>);

    /// Checks a response. The error describes how it differs from the expected one.
    fn check_response(
        &mut self,
        item: &Self::Item,
        response: &Response<'_>,
        latency: Duration,
    ) -> Result<(), String>;
}

/// An idle socket's buffer always has room for this many bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Rate, connections and duration of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadProfile {
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    /// Send several requests on a connection, one after the other.
    pub(crate) keep_alive: bool,
    /// Average rate of an open loop. `None`: a closed loop, in which each connection sends its next request after the
    /// response.
    pub(crate) requests_per_second: Option<f64>,
    /// Seed of the arrivals of an open loop.
    pub(crate) seed: u64,
    /// Longest wait for a response, from when the request was due.
    pub(crate) timeout: Duration,
}

impl LoadProfile {
    /// Returns the scenario with its load, for people.
    pub(crate) fn label(&self, scenario: &str) -> String {
        match self.requests_per_second {
            Some(rate) => format!("{scenario}, {rate:.0} requests/s"),
            None if self.connections == 1 => format!("{scenario}, 1 connection"),
            None => format!("{scenario}, {} connections", self.connections),
        }
    }

    pub(crate) fn judged_by(&self) -> JudgedBy {
        if self.requests_per_second.is_some() { JudgedBy::P99 } else { JudgedBy::Rate }
    }
}
