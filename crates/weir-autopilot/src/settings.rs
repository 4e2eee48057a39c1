//! `[autopilot]`.

use std::time::Duration;

use weir_settings::{DAY, HOUR, MILLISECOND, SECOND, Section};

use crate::mode::{ManagedSystem, Mode, WatchedSystem};

const MINUTE: Duration = Duration::from_secs(60);

/// What the autopilot does, how often, and within which limits.
#[derive(Clone, Debug, PartialEq, Section)]
#[section(restart, path = "autopilot")]
pub struct AutopilotSettings {
    /// "advise": say what should change, in the log and in the journal. "on": do it, with what manage lists. Both read
    /// the database of [observe.postgres]. `weir autopilot` changes the mode at run time.
    #[setting(choice)]
    pub mode: Mode,
    /// What "on" may change: "jobs", the queues of the embedded job store, or "workers.NAME", the threads of the Sidekiq
    /// processes of [workers.NAME]. Not both.
    #[setting(parsed_texts)]
    pub manage: Vec<ManagedSystem>,
    /// The jobs that are watched: "jobs" are those of Weir's job server, "sidekiq" those in [[observe.redis]]. "auto": what
    /// manage names; without it "sidekiq" if a Redis is observed, and "jobs" otherwise.
    #[setting(choice)]
    pub watch: WatchedSystem,
    /// Limits one job type of Sidekiq at a time: moves its waiting jobs to a queue of their own, QUEUE_limited_TYPE, which an
    /// additional process of the group in manage serves, and moves them back afterwards. That writes to the jobs' Redis
    /// ([[observe.redis]]).
    pub move_jobs: bool,
    /// Least time between two changes of threads of [workers.NAME], from the end of the one before: each replaces the
    /// processes of the group, one after the other.
    // A Rails application needs half a minute to start, and its jobs half a minute to end.
    #[setting(range = SECOND..=DAY, default = MINUTE.saturating_mul(2))]
    pub change_interval: Duration,
    /// Time between decisions.
    // The rules' constants are for about this; jobs that run for seconds show no effect sooner.
    #[setting(range = SECOND..=MINUTE, default = SECOND.saturating_mul(5))]
    pub interval: Duration,
    /// Without fresh data nothing changes for this long; then limits end step by step. Limits also end this long after
    /// the autopilot has stopped renewing them.
    #[setting(range = SECOND.saturating_mul(10)..=HOUR, default = MINUTE)]
    pub hold_for: Duration,
    /// Queues without a target_latency are late from this wait on.
    #[setting(range = SECOND..=DAY, default = MINUTE.saturating_mul(5))]
    pub default_target: Duration,
    #[setting(section)]
    pub limits: AutopilotLimits,
}

/// Limits of what is read and stored.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "autopilot.limits")]
pub struct AutopilotLimits {
    /// Time between two samples of the database's sessions. Decisions use the averages since the last decision.
    #[setting(advanced, range = MILLISECOND.saturating_mul(200)..=MINUTE, default = SECOND)]
    pub sample_interval: Duration,
    /// Time limit of one sample of the database, and of one request to the job server.
    #[setting(advanced, range = MILLISECOND.saturating_mul(100)..=MINUTE, default = SECOND.saturating_mul(3))]
    pub sample_timeout: Duration,
    /// Time of the lease that lets one of several autopilots act. It is renewed four times in this time. After the holder
    /// has ended without notice, another one acts this much later at most. No longer than hold_for.
    #[setting(advanced, range = SECOND.saturating_mul(2)..=MINUTE.saturating_mul(5), default = SECOND.saturating_mul(20))]
    pub lease: Duration,
    /// Queues with figures of their own; the rest are not looked at.
    #[setting(advanced, range = 1..=10_000, default = 200)]
    pub queues_max: usize,
    /// Job types with figures of their own; the rest share one entry, which is never limited.
    #[setting(advanced, range = 1..=10_000, default = 200)]
    pub classes_max: usize,
    /// Waiting jobs of a queue that are read to find out how many there are of each type.
    #[setting(advanced, range = 1..=1_000, default = 50)]
    pub waiting_samples: usize,
    /// Time between two rounds of moving jobs (move_jobs). Processes may still run jobs of the type that were pushed since the
    /// last round.
    // A round renews the lease in Redis, which lasts for hold_for: 10 s at least.
    #[setting(advanced, range = MILLISECOND.saturating_mul(100)..=SECOND.saturating_mul(2), default = SECOND)]
    pub move_interval: Duration,
    /// Steps of one round and queue. Each examines the 500 jobs that are fetched next. Moving back takes up to four times as
    /// many.
    // 80 steps back of 9 ms for each of 20 queues are 14 s: less than the limit of a round.
    #[setting(advanced, range = 1..=20, default = 5)]
    pub move_steps_max: usize,
    /// Values that operators may set by hand at once.
    #[setting(advanced, range = 1..=1_000, default = 20)]
    pub overrides_max: usize,
    /// Bytes of the journal: two files of half of this size, of which the older one is deleted.
    #[setting(advanced, size, range = 1 << 16..=1 << 30, default = 8 << 20)]
    pub journal_bytes_max: u64,
    /// Entries of the journal that are kept in memory, for the console and for `weir autopilot journal`.
    #[setting(advanced, range = 10..=100_000, default = 1_000)]
    pub journal_entries_max: usize,
}
