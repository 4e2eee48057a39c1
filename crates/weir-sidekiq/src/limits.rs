//! What a look may cost.

use std::time::Duration;

/// Ceilings of one look at one Redis. What is cut off by one is named in [`Snapshot::cut`].
///
/// [`Snapshot::cut`]: crate::Snapshot::cut
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleLimits {
    /// Queues that are looked at.
    pub queues_max: usize,
    /// Processes with a heartbeat that are looked at.
    pub processes_max: usize,
    /// Identities that are asked for a heartbeat: those of processes that were killed stay in the list.
    pub identities_max: usize,
    /// Threads of one process whose jobs in hand are read.
    pub threads_max: usize,
    /// Newest jobs of a queue that tell how fast jobs come.
    pub arrivals_max: usize,
    /// Jobs in each of the windows of a queue's sample (oldest, middle, newest).
    pub sample_window: usize,
    /// Jobs that a queue must have for its windows to be read.
    pub sample_length_min: u64,
    /// Bytes of one window of jobs. It is read in steps, and none is begun that would not fit if its
    /// jobs were as large as those before.
    pub window_bytes: usize,
    /// Jobs of one such step, the first of which is one job: how large they are shows only then.
    pub step_jobs: usize,
    /// Jobs of one round trip: what a look reads beyond `jobs_bytes_max` is at most one of them.
    pub jobs_per_round: usize,
    /// Bytes of jobs that one look reads, those in hand included.
    pub jobs_bytes_max: usize,
    /// Jobs of the retry and dead sets that are sampled.
    pub set_sample: usize,
    /// Keys that are looked at to tell who else uses this Redis.
    pub keys_sample: usize,
    /// Entries of the slow log.
    pub slow_commands: usize,
    /// Commands of others whose counts are kept: those that took most time.
    pub operations_max: usize,
    /// Commands of one round trip: between two, Redis serves others.
    pub commands_per_round: usize,
    /// Commands of one look.
    pub commands_max: usize,
    /// Until a connection is there.
    pub connect_timeout: Duration,
    /// Until one round trip is answered.
    pub answer_timeout: Duration,
    /// Until the look is over.
    pub deadline: Duration,
}

impl Default for SampleLimits {
    fn default() -> Self {
        Self {
            queues_max: 1_000,
            processes_max: 1_000,
            // A hundred round trips.
            identities_max: 5_000,
            threads_max: 200,
            // 100 jobs of 2 kB are 0.4 ms of Redis.
            arrivals_max: 100,
            // Three windows of 40 tell a share of a half to within 9 points.
            sample_window: 40,
            sample_length_min: 1_000,
            // Windows of jobs of 2 kB are far below; with jobs of a megabyte a window is one job.
            window_bytes: 512 * 1024,
            step_jobs: 20,
            jobs_per_round: 100,
            // Three windows of jobs of 2 kB of each of 180 queues.
            jobs_bytes_max: 64 << 20,
            set_sample: 100,
            keys_sample: 200,
            slow_commands: 32,
            operations_max: 50,
            // 50 commands of 40 jobs are below 10 ms, which no fetch notices.
            commands_per_round: 50,
            // 12 steps for each queue and 5 commands for each process, if there are 1,000 of both, and one for
            // each identity.
            commands_max: 24_000,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
        }
    }
}
