//! Loads of HTTP/1.1 requests: one thread, many connections, a closed or an open loop.
//!
//! A bench says what is asked and judges the answers ([`Load`]); when requests are sent, how long they took and what
//! went wrong is the same for all.

mod answer;
pub(crate) mod ask;
mod client;
mod connection;
mod pace;
mod report;
mod rounds;
mod table;
mod tally;
mod target;
mod url;

use std::time::Duration;

pub(crate) use self::answer::Answer;
#[cfg(test)]
pub(crate) use self::pace::Pace;
pub(crate) use self::report::{Figures, as_number, decimals, each_us, rounded};
pub(crate) use self::rounds::{Round, run_rounds};
pub(crate) use self::target::{HttpRun, Target};
pub(crate) use self::url::HttpUrl;
pub(crate) use self::{table::of as table_of, target::run};

/// What a bench asks.
pub(crate) trait Load {
    /// What is asked for, as far as it must be known when the answer comes.
    type Wanted;

    fn next(&mut self) -> Self::Wanted;

    /// Appends the whole request to `out`: at most [`REQUEST_BYTES_MAX`].
    fn write(&self, wanted: &Self::Wanted, out: &mut Vec<u8>);

    /// Looks at an answer. An error says how it differs from what it should be.
    fn judge(
        &mut self,
        wanted: &Self::Wanted,
        answer: &Answer<'_>,
        latency: Duration,
    ) -> Result<(), String>;
}

/// There is always room for so much in a socket's buffer on which nothing else is under way.
pub(crate) const REQUEST_BYTES_MAX: usize = 16 << 10;

/// How often, on how many connections and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
    /// Several requests on a connection, one after the other.
    pub(crate) keep_alive: bool,
    /// An open loop of so many on average. `None`: each connection asks again when it has its answer.
    pub(crate) requests_per_second: Option<f64>,
    /// Decides the arrivals of an open loop.
    pub(crate) seed: u64,
    /// Longest wait for an answer, from when the request should have been sent.
    pub(crate) timeout: Duration,
}
