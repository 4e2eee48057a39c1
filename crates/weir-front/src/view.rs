//! What an operator sees of the apps: plain data.

use std::time::Duration;

use crate::address::UpstreamAddress;
use crate::latencies::Distribution;

/// One app now.
#[derive(Clone, Debug, PartialEq)]
pub struct AppView {
    pub name: String,
    /// Requests that wait for a worker.
    pub requests_waiting: usize,
    /// Requests wait, and will until it is resumed.
    pub is_paused: bool,
    /// Everybody is shown the maintenance page.
    pub is_in_maintenance: bool,
    /// The queues of jobs for whose sake some requests are refused now.
    pub shedding: Vec<String>,
    /// More requests arrive than can be served: the newest is served first, and the others are rejected early.
    pub is_overloaded: bool,
    pub workers: Vec<WorkerView>,
    pub totals: TotalsView,
}

/// What was counted of an app since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TotalsView {
    /// Requests that a worker has answered, and WebSockets that it has opened.
    pub answers: u64,
    /// Those of them with a status from 500 on.
    pub server_errors: u64,
    /// Requests that got no slot of a worker, by limit.
    pub refusals: Vec<ReasonCount>,
    /// Requests without a worker's response, by reason.
    pub failures: Vec<ReasonCount>,
    /// From a request's head to its slot of a worker.
    pub waits: Distribution,
    /// From there to the head of the response.
    pub services: Distribution,
    /// As long as the app says that its responses took (`X-Runtime`), where it says so.
    pub insides: Distribution,
    /// From a request's head to that of its response: what a client waits.
    pub outsides: Distribution,
}

/// How often something happened, by its reason's name in the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonCount {
    pub reason: &'static str,
    pub count: u64,
}

/// One worker now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Where it listens, as in the settings.
    pub address: String,
    /// Requests that it serves, those of service processes that were replaced included.
    pub requests: u32,
    /// WebSockets and event streams that it serves, likewise.
    pub streams: u32,
    /// Requests and streams that it has been given since it was added.
    pub given: u64,
    /// How long these have waited for it, in all.
    pub waited: Duration,
    /// How long its oldest request (no stream) has been running.
    pub oldest_request: Option<Duration>,
    pub state: UpstreamWorkerState,
}

/// A worker with requests that run for too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverdueView {
    pub address: UpstreamAddress,
    /// How long the oldest of them has been running.
    pub oldest: Duration,
    /// Requests of the same worker that don't run for too long.
    pub bystanders: u32,
}

/// Whether a worker is given requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamWorkerState {
    Serving,
    /// It gets nothing new: [`crate::Apps::hold_back`].
    HeldBack,
    /// It could not be reached, and will be tried again soon.
    Unreachable,
    /// It finishes what it has.
    Draining,
}

impl AppView {
    /// Of what the workers were given since they were added.
    #[must_use]
    pub fn jain_index(&self) -> Option<f64> {
        jain_index(self.workers.iter().map(|worker| worker.given))
    }
}

/// Jain's fairness index over workers' counts: 1 is even, 1/n is all to one. (R. Jain, D. Chiu,
/// W. Hawe, DEC-TR-301, 1984.) None: nothing was given. Even counts are no aim by themselves: to be
/// shown beside latencies only.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a ratio: 53 bits are enough")]
pub fn jain_index(given: impl Iterator<Item = u64>) -> Option<f64> {
    let (mut workers, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for count in given {
        let count = count as f64;
        workers += 1.0;
        sum += count;
        squares += count * count;
    }
    (squares > 0.0).then(|| sum * sum / (workers * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(given: &[u64]) -> AppView {
        let worker = |&given: &u64| WorkerView {
            address: String::new(),
            requests: 0,
            streams: 0,
            given,
            waited: Duration::ZERO,
            oldest_request: None,
            state: UpstreamWorkerState::Serving,
        };
        AppView {
            name: "app".to_owned(),
            requests_waiting: 0,
            is_paused: false,
            is_in_maintenance: false,
            shedding: Vec::new(),
            is_overloaded: false,
            workers: given.iter().map(worker).collect(),
            totals: TotalsView::default(),
        }
    }

    #[test]
    fn the_index_says_how_even_counts_are() {
        assert_eq!(app(&[]).jain_index(), None);
        assert_eq!(app(&[0, 0]).jain_index(), None);
        assert_eq!(app(&[7, 7, 7]).jain_index(), Some(1.0));
        assert_eq!(app(&[9, 0, 0, 0]).jain_index(), Some(0.25));
        // The public record of one shared socket: eight of sixteen workers idle.
        let counts = [49_131, 48_525, 30_281, 8_263, 1_193, 163, 26, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let index = app(&counts).jain_index().expect("an index");
        assert!((0.1..0.3).contains(&index), "{index}");
    }
}
