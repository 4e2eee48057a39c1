//! The throughput of job workers by concurrency, and the state of Weir's own queues.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_advisor::levels::{Levels, LoadWindow};
use weir_advisor::observation::{OwnQueue, Throughput};
use weir_base::clock::Timestamp;
use weir_jobs::view::{JobServerOverview, JobWorkerView, QueueView};

/// Samples of the job server.
#[derive(Debug, Default)]
pub(super) struct JobMeasurements {
    levels: Levels,
    previous: Option<(Timestamp, JobServerOverview)>,
    queues: Vec<OwnQueue>,
}

impl JobMeasurements {
    pub(super) fn record(
        &mut self,
        at: Timestamp,
        overview: JobServerOverview,
        queues: Vec<QueueView>,
        workers: Vec<JobWorkerView>,
    ) {
        if let Some((from, previous)) = &self.previous
            && let Some(window) = window(*from, previous, at, &overview)
        {
            self.levels.note(window);
        }
        let fetchers = fetchers(&workers);
        self.queues = queues.into_iter().map(|queue| own_queue(queue, &fetchers)).collect();
        self.previous = Some((at, overview));
    }

    pub(super) fn goodput(&self) -> Vec<Throughput> {
        let levels = self.levels.goodput();
        let Some((_, overview)) = self.previous.as_ref().filter(|_| !levels.is_empty()) else {
            return Vec::new();
        };
        vec![Throughput {
            of: "Weir's workers".to_owned(),
            threads_now: u32::try_from(overview.working).unwrap_or(u32::MAX),
            place: "the command lines of the workers ([workers.NAME])".to_owned(),
            levels,
        }]
    }

    pub(super) fn queues(&self) -> Vec<OwnQueue> {
        self.queues.clone()
    }
}

/// Returns the throughput between two samples. None: jobs did not wait all the time, or a restart
/// has reset the counters.
fn window(
    from: Timestamp,
    previous: &JobServerOverview,
    at: Timestamp,
    now: &JobServerOverview,
) -> Option<LoadWindow> {
    let had_backlog =
        previous.enqueued.min(now.enqueued) >= previous.working.max(now.working).max(1);
    let threads = u32::try_from(previous.working.midpoint(now.working)).ok()?;
    let jobs = now.processed_total.checked_sub(previous.processed_total)?;
    had_backlog.then_some(LoadWindow { at, length: at.since(from), threads, jobs })
}

/// Counts the running workers by the queues of their last fetch.
fn fetchers(workers: &[JobWorkerView]) -> BTreeMap<&str, u32> {
    let mut fetchers = BTreeMap::new();
    let running = workers.iter().filter(|worker| worker.state == "running");
    for queue in running.flat_map(|worker| &worker.queues) {
        *fetchers.entry(queue.as_str()).or_default() += 1;
    }
    fetchers
}

fn own_queue(queue: QueueView, fetchers: &BTreeMap<&str, u32>) -> OwnQueue {
    OwnQueue {
        length: queue.depth,
        latency: Duration::try_from_secs_f64(queue.latency_seconds).unwrap_or_default(),
        is_paused: queue.paused,
        fetchers: fetchers.get(queue.name.as_str()).copied().unwrap_or_default(),
        arrivals_per_second: queue.pushed_per_second,
        served_per_second: queue.processed_per_second,
        name: queue.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(working: u64, enqueued: u64, processed_total: u64) -> JobServerOverview {
        JobServerOverview { working, enqueued, processed_total, ..JobServerOverview::default() }
    }

    #[test]
    fn goodput_is_measured_while_jobs_wait() {
        let mut jobs = JobMeasurements::default();
        let mut processed = 0;
        for (step, threads) in [10, 10, 10, 10, 40, 40, 40, 40, 40].into_iter().enumerate() {
            processed += if threads == 10 { 300 } else { 100 };
            let at = Timestamp::from_millis(step as u64 * 10_000);
            jobs.record(at, overview(threads, 5_000, processed), Vec::new(), Vec::new());
        }
        let throughput = jobs.goodput().remove(0);
        assert_eq!(throughput.threads_now, 40);
        let of = |threads| {
            let mut levels = throughput.levels.iter();
            levels.find(|level| level.threads == threads).map(|level| level.jobs_per_second)
        };
        assert_eq!((of(10), of(40)), (Some(30.0), Some(10.0)));
    }

    #[test]
    fn windows_without_backlog_or_across_restarts_are_ignored() {
        let at = |second: u64| Timestamp::from_millis(second * 1_000);
        let window = |previous: JobServerOverview, now: JobServerOverview| {
            window(at(0), &previous, at(10), &now)
        };
        assert!(window(overview(10, 50, 0), overview(10, 50, 9)).is_some());
        assert_eq!(window(overview(10, 50, 0), overview(10, 9, 9)), None);
        assert_eq!(window(overview(10, 50, 10), overview(10, 50, 9)), None);
    }

    #[test]
    fn queues_count_their_fetchers() {
        let worker = |state: &str| JobWorkerView {
            state: state.to_owned(),
            queues: vec!["push".to_owned()],
            ..JobWorkerView::default()
        };
        let queue =
            |name: &str| QueueView { name: name.to_owned(), depth: 7, ..QueueView::default() };
        let mut jobs = JobMeasurements::default();
        let workers = vec![worker("running"), worker("quiet")];
        let queues = vec![queue("push"), queue("pull")];
        jobs.record(Timestamp::from_millis(0), overview(0, 0, 0), queues, workers);
        let fetchers: Vec<u32> = jobs.queues().iter().map(|queue| queue.fetchers).collect();
        assert_eq!(fetchers, [1, 0]);
    }
}
