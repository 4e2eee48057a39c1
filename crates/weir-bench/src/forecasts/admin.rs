//! Reads the queues with their forecasts from the admin API, as `weir jobs list --json` does.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;

use super::record::Forecast;
use crate::clock::monotonic;
use crate::http::response;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Jobs per second below which a queue does not shrink: less than one job per minute.
const SHRINKING_MIN: f64 = 1.0 / 120.0;
const REQUEST: &[u8] = b"GET /v1/jobs/queues HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n";

/// A queue in the response.
#[derive(Debug, Deserialize)]
pub(super) struct QueueState {
    pub(super) name: String,
    pub(super) depth: u64,
    arriving_per_second: f64,
    processed_per_second: f64,
    drain: DrainState,
}

#[derive(Debug, Deserialize)]
struct DrainState {
    state: String,
    expected_seconds: Option<f64>,
    shortest_seconds: Option<f64>,
    longest_seconds: Option<f64>,
}

impl QueueState {
    pub(super) fn forecast(&self) -> Forecast {
        let drain = &self.drain;
        Forecast {
            expected: drain.expected_seconds,
            range: drain.shortest_seconds.zip(drain.longest_seconds),
            says_never: ["grows", "stalled"].contains(&drain.state.as_str()),
            state: drain.state.clone(),
            by_last_minute: self.by_last_minute(),
        }
    }

    /// Returns the time to drain by the rates of the last minute.
    fn by_last_minute(&self) -> Option<f64> {
        let shrinking = self.processed_per_second - self.arriving_per_second;
        (shrinking > SHRINKING_MIN).then(|| as_f64(self.depth) / shrinking)
    }
}

#[derive(Debug)]
pub(super) struct AdminApi {
    socket: PathBuf,
    latencies: Vec<Duration>,
}

impl AdminApi {
    pub(super) fn new(data: &Path) -> Self {
        Self { socket: data.join("weir.sock"), latencies: Vec::new() }
    }

    /// Returns how long the requests took.
    pub(super) fn latencies(self) -> Vec<Duration> {
        self.latencies
    }

    pub(super) fn queues(&mut self) -> Result<Vec<QueueState>> {
        let began = monotonic();
        let queues = self.request().with_context(|| format!("at {}", self.socket.display()))?;
        self.latencies.push(monotonic().saturating_sub(began));
        Ok(queues)
    }

    fn request(&self) -> Result<Vec<QueueState>> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(REQUEST)?;
        let mut input = Vec::new();
        stream.read_to_end(&mut input)?;
        let parsed = response::parse(&input, true).map_err(|text| anyhow!(text))?;
        let response = parsed.context("an incomplete response")?;
        let body = &input[response.length - response.body_bytes..response.length];
        ensure!(response.status == 200, "status {}", response.status);
        Ok(serde_json::from_slice(body)?)
    }
}

#[expect(clippy::cast_precision_loss, reason = "some thousand jobs")]
const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_read_with_and_without_a_range() {
        let forecast = |drain: &str| {
            let json = format!(
                r#"{{"name":"q","depth":9,"arriving_per_second":1.0,"processed_per_second":4.0,"drain":{drain}}}"#
            );
            let queue: QueueState = serde_json::from_str(&json).expect("a queue");
            queue.forecast()
        };
        let with = forecast(
            r#"{"state":"drains","expected_seconds":2.0,"shortest_seconds":1.0,"longest_seconds":4.0}"#,
        );
        assert_eq!((with.expected, with.range), (Some(2.0), Some((1.0, 4.0))));
        assert_eq!((with.by_last_minute, with.says_never), (Some(3.0), false));
        let variable = forecast(r#"{"state":"too_variable","shortest_seconds":1.0}"#);
        assert_eq!((variable.range, variable.says_never), (None, false));
        assert!(forecast(r#"{"state":"grows"}"#).says_never);
    }
}
