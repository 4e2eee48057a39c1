//! Limits of the cost of a sample.

use std::time::Duration;

/// Limits of one sample of one Redis. Limits that truncated it are named in [`RedisSnapshot::cut`].
///
/// [`RedisSnapshot::cut`]: crate::RedisSnapshot::cut
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleLimits {
    /// Maximum number of queues.
    pub queues_max: usize,
    /// Maximum number of processes with a heartbeat.
    pub processes_max: usize,
    /// Maximum number of identities whose heartbeat is checked. Killed processes stay in the list.
    pub identities_max: usize,
    /// Maximum number of threads per process whose jobs in progress are read.
    pub threads_max: usize,
    /// Maximum number of newest jobs per queue that are read for the arrival rate.
    pub arrivals_max: usize,
    /// Jobs in each window of a queue's sample (oldest, middle, newest).
    pub sample_window: usize,
    /// Minimum queue depth for which windows are read.
    pub sample_length_min: u64,
    /// Maximum bytes of jobs per window. A window is read in steps. A step is skipped if it would
    /// exceed the limit with jobs as large as the previous ones.
    pub window_bytes: usize,
    /// Maximum jobs per step. The first step is always one job, because its size is unknown. Jobs
    /// that are larger than all that were read before are read in steps of up to this many.
    pub step_jobs: usize,
    /// Maximum jobs per round trip. `jobs_bytes_max` is exceeded by at most one round trip.
    pub jobs_per_round: usize,
    /// Maximum bytes of jobs per sample, including jobs in progress.
    pub jobs_bytes_max: usize,
    /// Jobs sampled from the retry and dead sets.
    pub set_sample: usize,
    /// Number of keys sampled to detect other programs.
    pub keys_sample: usize,
    /// Maximum entries of the slow log.
    pub slow_commands: usize,
    /// Maximum number of commands with statistics, highest total time first.
    pub operations_max: usize,
    /// Maximum commands per round trip. Redis serves other clients between round trips.
    pub commands_per_round: usize,
    /// Maximum commands per sample.
    pub commands_max: usize,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout for one round trip.
    pub answer_timeout: Duration,
    /// Timeout for a sample.
    pub deadline: Duration,
}

impl Default for SampleLimits {
    fn default() -> Self {
        Self {
            queues_max: 1_000,
            processes_max: 1_000,
            // This takes 100 round trips.
            identities_max: 5_000,
            threads_max: 200,
            // 100 jobs of 2 kB take Redis 0.4 ms.
            arrivals_max: 100,
            // Three windows of 40 jobs estimate a share of one half to within 9 percentage points.
            sample_window: 40,
            // The windows then have most of the jobs.
            sample_length_min: 100,
            // Far above windows of 2 kB jobs. With jobs of one megabyte, a window is a single job.
            window_bytes: 512 * 1024,
            step_jobs: 20,
            jobs_per_round: 100,
            // Enough for three windows of 2 kB jobs in each of 180 queues.
            jobs_bytes_max: 64 << 20,
            set_sample: 100,
            keys_sample: 200,
            slow_commands: 32,
            operations_max: 50,
            // 50 commands of 40 jobs take less than 10 ms, which fetches do not notice.
            commands_per_round: 50,
            // Enough for 1,000 queues with 12 steps each, 1,000 processes with 5 commands each, and
            // one command per identity.
            commands_max: 24_000,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
        }
    }
}
