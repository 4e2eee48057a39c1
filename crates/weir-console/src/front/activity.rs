//! The activity of an app between two samples.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_front::Distribution;
use weir_front::view::{ReasonCount, jain_index};

use super::app::{FrontApp, FrontWorker};
use super::reasons;
use crate::figures::as_float;

/// The activity of an app between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AppActivity {
    pub(crate) requests_per_second: f64,
    pub(crate) rejected_per_second: f64,
    pub(crate) rejected: u64,
    /// The same by reason.
    pub(crate) rejections: Vec<ReasonCount>,
    /// The time since the last of these. None: there were none.
    pub(crate) since_rejected: Option<Duration>,
    /// Requests that a shed rule rejected because a job queue was late.
    pub(crate) shed: u64,
    pub(crate) evictions: u64,
    /// The time that requests waited for a worker.
    pub(crate) waits: Distribution,
    /// The time until workers began their responses.
    pub(crate) responses: Distribution,
    /// Jain's fairness index of the requests given to serving workers. None: no requests.
    pub(crate) jain_index: Option<f64>,
    /// The mean wait of the requests of each worker, by its address.
    waits_of: BTreeMap<String, Duration>,
}

impl AppActivity {
    /// Computes the activity from `before` to `now`, which are `seconds` apart.
    pub(super) fn between(before: &FrontApp, now: &FrontApp, seconds: f64) -> Self {
        let rate = |count: u64| if seconds > 0.0 { as_float(count) / seconds } else { 0.0 };
        let rejections = since(&before.totals.rejections, &now.totals.rejections);
        let rejected = sum(&rejections);
        let assigned: Vec<WorkerLoad> =
            now.workers.iter().map(|worker| WorkerLoad::since(before, worker)).collect();
        let responses = match now.shared_sockets {
            Some(_) => assigned.iter().map(|assigned| assigned.count).sum(),
            None => now.totals.responses.saturating_sub(before.totals.responses),
        };
        let waits_of = now.workers.iter().zip(&assigned).filter_map(mean_wait);
        let waits_of = waits_of.filter(|_| now.shared_sockets.is_none());
        let serving = now.workers.iter().zip(&assigned).filter(|(worker, _)| worker.is_serving());
        Self {
            requests_per_second: rate(responses),
            rejected_per_second: rate(rejected),
            rejected,
            rejections,
            since_rejected: None,
            shed: shed_total(now).saturating_sub(shed_total(before)),
            evictions: now.evictions.saturating_sub(before.evictions),
            waits: now.totals.queue_times.since(&before.totals.queue_times),
            responses: now.totals.service_times.since(&before.totals.service_times),
            jain_index: jain_index(serving.map(|(_, assigned)| assigned.count)),
            waits_of: waits_of.collect(),
        }
    }

    /// Returns the mean wait of this worker's requests. None: it was given none.
    pub(crate) fn mean_wait(&self, worker: &FrontWorker) -> Option<Duration> {
        self.waits_of.get(worker.address.as_ref()?).copied()
    }
}

/// Returns the sum of all reasons.
pub(super) fn sum(counts: &[ReasonCount]) -> u64 {
    counts.iter().map(|entry| entry.count).sum()
}

/// Returns what was counted since `before`, by reason.
fn since(before: &[ReasonCount], now: &[ReasonCount]) -> Vec<ReasonCount> {
    let earlier = |reason| before.iter().find(|entry| entry.reason == reason);
    let more = now.iter().map(|entry| ReasonCount {
        reason: entry.reason,
        count: entry.count.saturating_sub(earlier(entry.reason).map_or(0, |entry| entry.count)),
    });
    more.filter(|entry| entry.count > 0).collect()
}

fn shed_total(app: &FrontApp) -> u64 {
    let shed = app.totals.failures.iter().find(|entry| entry.reason == reasons::SHED);
    shed.map_or(0, |entry| entry.count)
}

/// The requests that a worker received.
struct WorkerLoad {
    count: u64,
    waited: Duration,
}

impl WorkerLoad {
    /// Returns the load since `before`; a worker that is not in it starts from zero.
    fn since(before: &FrontApp, worker: &FrontWorker) -> Self {
        let same = |it: &&FrontWorker| it.address.is_some() && it.address == worker.address;
        let before = before.workers.iter().find(same);
        let (assigned, waited) =
            before.map_or((0, Duration::ZERO), |worker| (worker.assigned, worker.waited));
        Self {
            count: worker.assigned.saturating_sub(assigned),
            waited: worker.waited.saturating_sub(waited),
        }
    }
}

fn mean_wait((worker, assigned): (&FrontWorker, &WorkerLoad)) -> Option<(String, Duration)> {
    let count = u32::try_from(assigned.count).unwrap_or(u32::MAX);
    Some((worker.address.clone()?, assigned.waited.checked_div(count)?))
}
