//! `[observe.limits]`: what observing may cost, and how much of it is reported.

use std::ops::RangeInclusive;
use std::time::Duration;

use weir_advisor::figures::LabelLimits;
use weir_observe::PostgresLimits;
use weir_settings::{DAY, SECOND, Section, WAIT};
use weir_sidekiq::SampleLimits as RedisLimits;

/// More of anything than a Sidekiq has.
const COUNT: RangeInclusive<u64> = 1..=1_000_000;

#[derive(Clone, Debug, Section)]
#[section(restart, path = "observe.limits")]
pub struct ObserveLimits {
    /// Time limit for a snapshot of one source. When it is exceeded, the connection is closed
    /// and the values are unknown.
    #[setting(advanced, range = WAIT, default = SECOND.saturating_mul(10))]
    pub look_timeout: Duration,
    /// A source that fails is retried after the interval, then after longer delays, up to this
    /// one.
    #[setting(advanced, range = SECOND..=DAY, default = SECOND.saturating_mul(300))]
    pub retry_max: Duration,
    /// Queues with metrics of their own; the rest share `queue="other"`, and weir_observe_left_out
    /// counts them.
    #[setting(advanced, range = 0..=100_000, default = LabelLimits::default().metrics_queues_max)]
    metrics_queues_max: usize,
    /// Services (kinds of database clients) with metrics of their own; the rest share
    /// `service="other"`.
    #[setting(advanced, range = 0..=100_000, default = LabelLimits::default().metrics_services_max)]
    metrics_services_max: usize,
    /// Queues in a snapshot. A finding reports what this limit or the next ones leave out.
    #[setting(advanced, range = COUNT, default = RedisLimits::default().queues_max)]
    queues_max: usize,
    /// Processes of Sidekiq in a snapshot.
    #[setting(advanced, range = COUNT, default = RedisLimits::default().processes_max)]
    processes_max: usize,
    /// Commands that one snapshot sends to a Redis.
    #[setting(advanced, range = COUNT, default = RedisLimits::default().commands_max)]
    commands_max: usize,
    /// Bytes of jobs that one snapshot reads from a Redis: samples of queues and sets, and jobs in
    /// progress.
    #[setting(advanced, size, range = 1 << 20..=1 << 30, default = RedisLimits::default().jobs_bytes_max)]
    jobs_bytes_max: usize,
    /// Commands of other clients that are reported with count and time: those that take the most
    /// time.
    #[setting(advanced, range = 1..=1_000, default = RedisLimits::default().operations_max)]
    operations_max: usize,
    /// Sessions of Postgres in a snapshot.
    #[setting(advanced, range = COUNT, default = PostgresLimits::default().sessions_max)]
    sessions_max: u32,
    /// Kinds of statements in a snapshot, if pg_stat_statements is available; 0: none.
    #[setting(advanced, range = 0..=1_000, default = 20)]
    statements_max: u32,
    /// Time limit for one query of a snapshot.
    #[setting(range = WAIT, default = PostgresLimits::default().statement_timeout)]
    statement_timeout: Duration,
    /// How long a query may wait for a lock of the catalog.
    #[setting(advanced, range = WAIT, default = PostgresLimits::default().lock_timeout)]
    lock_timeout: Duration,
}

impl ObserveLimits {
    pub(super) fn redis(&self) -> RedisLimits {
        RedisLimits {
            queues_max: self.queues_max,
            processes_max: self.processes_max,
            commands_max: self.commands_max,
            jobs_bytes_max: self.jobs_bytes_max,
            operations_max: self.operations_max,
            ..RedisLimits::default()
        }
    }

    pub(super) fn postgres(&self) -> PostgresLimits {
        PostgresLimits {
            sessions_max: self.sessions_max,
            statements_max: self.statements_max,
            statement_timeout: self.statement_timeout,
            lock_timeout: self.lock_timeout,
            ..PostgresLimits::default()
        }
    }

    pub(super) fn label_limits(&self) -> LabelLimits {
        LabelLimits {
            metrics_queues_max: self.metrics_queues_max,
            metrics_services_max: self.metrics_services_max,
        }
    }
}
