//! The activity of an app between two samples.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_front::Distribution;
use weir_front::view::{ReasonCount, jain_index};

use super::app::{FrontApp, FrontWorker};
use crate::figures::as_float;

/// The activity of an app between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AppActivity {
    pub(crate) requests_per_second: f64,
    pub(crate) rejected_per_second: f64,
    pub(crate) rejected: u64,
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
        let rejected = sum(&now.totals.refusals).saturating_sub(sum(&before.totals.refusals));
        let given: Vec<WorkerLoad> =
            now.workers.iter().map(|it| WorkerLoad::since(before, it)).collect();
        let answers = match now.shared_sockets {
            Some(_) => given.iter().map(|given| given.count).sum(),
            None => now.totals.answers.saturating_sub(before.totals.answers),
        };
        let waits_of = now.workers.iter().zip(&given).filter_map(mean_wait);
        let waits_of = waits_of.filter(|_| now.shared_sockets.is_none());
        let serving = now.workers.iter().zip(&given).filter(|(worker, _)| worker.is_serving());
        Self {
            requests_per_second: rate(answers),
            rejected_per_second: rate(rejected),
            rejected,
            evictions: now.evictions.saturating_sub(before.evictions),
            waits: now.totals.waits.since(&before.totals.waits),
            responses: now.totals.services.since(&before.totals.services),
            jain_index: jain_index(serving.map(|(_, given)| given.count)),
            waits_of: waits_of.collect(),
        }
    }

    /// Returns the mean wait of this worker's requests. None: it was given none.
    pub(crate) fn mean_wait(&self, worker: &FrontWorker) -> Option<Duration> {
        self.waits_of.get(worker.address.as_ref()?).copied()
    }
}

fn sum(counts: &[ReasonCount]) -> u64 {
    counts.iter().map(|it| it.count).sum()
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
        let then = before.workers.iter().find(same);
        let (given, waited) = then.map_or((0, Duration::ZERO), |it| (it.given, it.waited));
        Self {
            count: worker.given.saturating_sub(given),
            waited: worker.waited.saturating_sub(waited),
        }
    }
}

fn mean_wait((worker, given): (&FrontWorker, &WorkerLoad)) -> Option<(String, Duration)> {
    let count = u32::try_from(given.count).unwrap_or(u32::MAX);
    Some((worker.address.clone()?, given.waited.checked_div(count)?))
}
