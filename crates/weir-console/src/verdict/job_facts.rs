//! The input of the rules about jobs.

use weir_jobs::settings::JobServerLimits;
use weir_jobs::view;

use crate::fetchers::is_running;
use crate::jobs::{JobsSnapshot, JobsSource, JobsTrend};

/// The state of the job server, for the rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobFacts<'a> {
    pub(crate) overview: &'a view::JobServerOverview,
    pub(crate) queues: &'a [view::QueueView],
    pub(crate) workers: &'a [view::JobWorkerView],
    pub(crate) trend: &'a JobsTrend,
    pub(crate) limits: &'a JobServerLimits,
    /// The address of the job server for clients.
    pub(crate) jobs_url: &'a str,
}

impl<'a> JobFacts<'a> {
    pub(crate) fn new(served: &'a JobsSource, reading: &'a JobsSnapshot) -> Self {
        Self {
            overview: &reading.overview,
            queues: &reading.queues,
            workers: &reading.workers,
            trend: &reading.trend,
            limits: &served.limits,
            jobs_url: &served.url,
        }
    }

    /// Returns whether a running process of Sidekiq fetches the queue.
    pub(super) fn is_served_by_sidekiq(&self, queue: &str) -> bool {
        self.overview.log.sidekiq_queues.iter().any(|name| name == queue)
    }

    /// Returns whether there are workers and none accepts jobs.
    pub(super) fn are_all_workers_leaving(&self) -> bool {
        !self.workers.is_empty() && !self.workers.iter().any(is_running)
    }
}
