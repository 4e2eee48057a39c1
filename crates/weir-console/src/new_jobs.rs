//! The new jobs of a queue whose fresh lane serves them before a backlog that is late: their wait is what users notice,
//! and not the age of the backlog.

use weir_jobs::view::QueueView;

/// The share of new jobs from which the queue counts as in time.
const IN_TIME_SHARE_MIN: f64 = 0.9;

/// The new jobs of the last ten seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NewJobs {
    /// The mean wait of those that started within the target latency.
    pub(crate) wait_seconds: f64,
    /// These as a share of the jobs that were pushed; the others join the backlog.
    pub(crate) in_time_share: f64,
}

impl NewJobs {
    /// Returns the new jobs of a late queue with a fresh lane. None: it is not late, has no fresh lane, or none started in
    /// time.
    pub(crate) fn of(queue: &QueueView) -> Option<Self> {
        let target =
            queue.target_latency_seconds.filter(|_| queue.fresh_lane && queue.depth > 0)?;
        let recent = &queue.recent;
        let (in_time, wait_seconds) = (recent.in_time_per_second?, recent.in_time_wait_seconds?);
        let in_time_share = match recent.pushed_per_second {
            pushed if pushed > 0.0 => (in_time / pushed).min(1.0),
            _ => 1.0,
        };
        (queue.latency_seconds > target).then_some(Self { wait_seconds, in_time_share })
    }

    /// Returns whether nearly all new jobs start within the target latency.
    pub(crate) fn are_in_time(self) -> bool {
        self.in_time_share >= IN_TIME_SHARE_MIN
    }
}
