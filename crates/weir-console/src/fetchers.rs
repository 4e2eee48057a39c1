//! The queues that workers fetch, according to the last fetch of each.

use std::collections::BTreeMap;

use weir_jobs::view;

/// The number of workers by queue.
#[derive(Debug, Default)]
pub(crate) struct Fetchers<'w> {
    by_queue: BTreeMap<&'w str, FetcherCount>,
    /// Running workers that fetch more queues than are known.
    unknown: u64,
}

/// The workers that fetch one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FetcherCount {
    /// Workers that accept jobs.
    pub(crate) running: u64,
    /// Workers that are quiet or stopping.
    pub(crate) leaving: u64,
}

impl<'w> Fetchers<'w> {
    pub(crate) fn new(workers: &'w [view::JobWorkerView]) -> Self {
        let mut fetchers = Self::default();
        for worker in workers {
            let runs = is_running(worker);
            if runs && has_unlisted_queues(worker) {
                fetchers.unknown += 1;
            }
            for queue in &worker.queues {
                let count = fetchers.by_queue.entry(queue).or_default();
                if runs { count.running += 1 } else { count.leaving += 1 }
            }
        }
        fetchers
    }

    pub(crate) fn count(&self, queue: &str) -> FetcherCount {
        self.by_queue.get(queue).copied().unwrap_or_default()
    }

    /// Returns whether certainly no running worker fetches the queue.
    pub(crate) fn is_certainly_unfetched(&self, queue: &str) -> bool {
        self.unknown == 0 && self.count(queue).running == 0
    }

    /// Returns all queues that a worker fetches.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &'w str> {
        self.by_queue.keys().copied()
    }
}

/// Returns whether a worker accepts jobs: it is neither quiet nor stopping.
pub(crate) fn is_running(worker: &view::JobWorkerView) -> bool {
    !matches!(worker.state.as_str(), "quiet" | "terminate")
}

pub(crate) const fn has_unlisted_queues(worker: &view::JobWorkerView) -> bool {
    worker.queues_total > worker.queues.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(state: &str, queues: &[&str], queues_total: u64) -> view::JobWorkerView {
        view::JobWorkerView {
            state: state.into(),
            queues: queues.iter().map(ToString::to_string).collect(),
            queues_total,
            ..view::JobWorkerView::default()
        }
    }

    #[test]
    fn running_and_quiet_workers_are_distinguished() {
        let workers = [
            worker("running", &["push", "pull"], 2),
            worker("quiet", &["push", "mail"], 2),
            worker("terminate", &["mail"], 1),
        ];
        let fetchers = Fetchers::new(&workers);
        assert_eq!(fetchers.count("push"), FetcherCount { running: 1, leaving: 1 });
        assert_eq!(fetchers.count("mail"), FetcherCount { running: 0, leaving: 2 });
        assert_eq!(fetchers.count("none"), FetcherCount::default());
        assert!(
            fetchers.is_certainly_unfetched("mail") && !fetchers.is_certainly_unfetched("push")
        );
        assert_eq!(fetchers.queues().collect::<Vec<_>>(), ["mail", "pull", "push"]);
    }

    #[test]
    fn a_worker_with_unlisted_queues_makes_the_count_uncertain() {
        let workers = [worker("running", &["push"], 2)];
        assert!(!Fetchers::new(&workers).is_certainly_unfetched("mail"));
        let workers = [worker("quiet", &["push"], 2)];
        assert!(Fetchers::new(&workers).is_certainly_unfetched("mail"));
    }
}
