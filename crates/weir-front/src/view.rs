//! Snapshots of the apps for operators, as plain data.

use std::time::Duration;

use crate::address::UpstreamAddress;
use crate::latencies::Distribution;

/// A snapshot of one app.
#[derive(Clone, Debug, PartialEq)]
pub struct AppView {
    pub name: String,
    /// Requests that wait for a worker.
    pub requests_waiting: usize,
    /// Whether requests wait until the app is resumed.
    pub is_paused: bool,
    /// Whether all clients get the maintenance page.
    pub is_in_maintenance: bool,
    /// The job queues because of which some requests are rejected at present.
    pub shedding: Vec<String>,
    /// The job queues whose latency is not known, so that no request is rejected because of them.
    pub shed_unknown: Vec<String>,
    /// Whether more requests arrive than can be served: the newest are served first, others are
    /// rejected early.
    pub is_overloaded: bool,
    pub workers: Vec<WorkerView>,
    pub totals: TotalsView,
}

/// Totals of an app since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TotalsView {
    /// Requests that a worker has responded to, and WebSockets that it has opened.
    pub responses: u64,
    /// Responses with a status of 500 or more.
    pub server_errors: u64,
    /// Requests that got no slot, by limit.
    pub rejections: Vec<ReasonCount>,
    /// Requests that got no response of a worker, by reason.
    pub failures: Vec<ReasonCount>,
    /// Durations from a request's head to its slot.
    pub queue_times: Distribution,
    /// Durations from the slot to the head of the response.
    pub service_times: Distribution,
    /// Durations as the app reports them in `X-Runtime`, for responses that have it.
    pub app_times: Distribution,
    /// Durations from a request's head to that of its response, as the client sees them.
    pub client_times: Distribution,
    /// The most requests that were in progress at once in this minute and the one before. No total.
    pub busy_peak: u32,
    /// How many requests the workers can have in progress at once now. No total.
    pub request_slots: u32,
}

/// How often something happened, with the reason's name in the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonCount {
    pub reason: &'static str,
    pub count: u64,
}

/// A snapshot of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Its address, as in the settings.
    pub address: String,
    /// Requests in progress, including those of replaced service processes.
    pub requests: u32,
    /// WebSockets and event streams in progress, likewise.
    pub streams: u32,
    /// Requests and streams that it has been given since it was added.
    pub assigned: u64,
    /// The sum of the times that these have waited for a slot.
    pub waited: Duration,
    /// How long its oldest request (streams excluded) has been running.
    pub oldest_request: Option<Duration>,
    pub state: UpstreamWorkerState,
}

/// A worker with overdue requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverdueView {
    pub address: UpstreamAddress,
    /// How long the oldest of these has been running.
    pub oldest: Duration,
    /// Requests of the same worker that are not overdue.
    pub bystanders: u32,
}

/// Whether a worker receives requests, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamWorkerState {
    Serving,
    /// It gets no new requests: [`crate::Apps::hold_back`].
    HeldBack,
    /// It could not be reached; it is retried soon.
    Unreachable,
    /// It finishes its requests and gets no new ones.
    Draining,
}

impl AppView {
    /// Returns Jain's index of the requests and streams that the workers were given.
    #[must_use]
    pub fn jain_index(&self) -> Option<f64> {
        jain_index(self.workers.iter().map(|worker| worker.assigned))
    }
}

/// Returns Jain's fairness index of the workers' counts: 1 if they are equal, 1/n if one worker got
/// all (R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984). None: all counts are 0. Equal counts are no
/// goal by themselves, so show the index beside latencies only.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a ratio: 53 bits are enough")]
pub fn jain_index(assigned: impl Iterator<Item = u64>) -> Option<f64> {
    let (mut workers, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for count in assigned {
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

    fn app(assigned: &[u64]) -> AppView {
        let worker = |&assigned: &u64| WorkerView {
            address: String::new(),
            requests: 0,
            streams: 0,
            assigned,
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
            shed_unknown: Vec::new(),
            is_overloaded: false,
            workers: assigned.iter().map(worker).collect(),
            totals: TotalsView::default(),
        }
    }

    #[test]
    fn jains_index_measures_evenness() {
        assert_eq!(app(&[]).jain_index(), None);
        assert_eq!(app(&[0, 0]).jain_index(), None);
        assert_eq!(app(&[7, 7, 7]).jain_index(), Some(1.0));
        assert_eq!(app(&[9, 0, 0, 0]).jain_index(), Some(0.25));
        // A published record of a shared socket: eight of sixteen workers are idle.
        let counts = [49_131, 48_525, 30_281, 8_263, 1_193, 163, 26, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let index = app(&counts).jain_index().expect("an index");
        assert!((0.1..0.3).contains(&index), "{index}");
    }
}
