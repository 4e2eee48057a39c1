//! `[observe]`: a Sidekiq, its Redis and its Postgres that Weir observes. The table switches it on.

mod limits;
mod pgbouncer;
mod postgres;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use weir_advisor::figures::LabelLimits;
use weir_advisor::observation::ConnectionPools;
use weir_observe::{PollSchedule, PostgresSource, Sources};
use weir_sidekiq::RedisEndpoint;

use super::redis;

use self::limits::ObserveLimits;
use self::pgbouncer::PgBouncer;
use self::postgres::Postgres;
use weir_settings::{DAY, HOUR, SECOND, Section, TableReader};

/// What is observed, how often, and how long it is remembered.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "observe", check = Self::finish)]
pub struct Observe {
    /// The table is in the file.
    #[setting(skip)]
    pub is_enabled: bool,
    /// Time between two snapshots. Each is compared with the one before it: a longer interval
    /// separates slow changes from noise, a shorter one shows changes sooner.
    // A snapshot costs Redis some milliseconds; a queue of Mastodon's changes in seconds.
    #[setting(range = SECOND..=HOUR, default = SECOND.saturating_mul(15))]
    pub interval: Duration,
    /// Other programs that connect to the database: "web=2x5" means two processes with a pool of
    /// five connections each, "web=2x5/16" the same with 16 threads each. "sidekiq" sets the pool
    /// of all Sidekiq processes where it differs from their threads.
    #[setting(parsed_texts)]
    pools: Vec<Pool>,
    #[setting(flatten)]
    pgbouncer: PgBouncer,
    /// Queues that the application pushes to: those without a worker are found before their first
    /// job.
    pushes: Vec<String>,
    /// How long the charts of observed systems reach back.
    #[setting(range = HOUR..=DAY.saturating_mul(400), default = DAY.saturating_mul(30))]
    pub history_kept: Duration,
    #[setting(section)]
    pub limits: ObserveLimits,
    #[setting(skip)]
    redis: Vec<RedisEndpoint>,
    #[setting(skip)]
    postgres: Option<Postgres>,
}

/// What opens connections to the database, as `weir doctor --pool` takes it.
#[derive(Clone, Debug)]
struct Pool(ConnectionPools);

impl FromStr for Pool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        super::pool(text).map(Self)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectionPools { name, processes, pool, threads, .. } = &self.0;
        write!(formatter, "{name}={processes}x{pool}")?;
        threads.map_or(Ok(()), |threads| write!(formatter, "/{threads}"))
    }
}

/// Reads the table, whose presence enables the part.
pub(crate) fn read_section(observe: &mut Observe, table: &mut TableReader<'_>) {
    observe.is_enabled = table.is_set("observe");
    table.section("observe", |table| observe.read(table));
}

impl Observe {
    fn finish(&mut self, table: &mut TableReader<'_>) {
        table.each("redis", |table| self.redis.extend(redis::read(table)));
        let mut postgres = Postgres::default();
        let has_postgres = table.is_set("postgres");
        table.section("postgres", |table| {
            postgres.read(table);
            if has_postgres {
                table.require(Postgres::URL.name);
            }
        });
        self.postgres = has_postgres.then_some(postgres);
    }

    /// Returns the schedule of polls.
    pub fn poll_schedule(&self) -> PollSchedule {
        let ObserveLimits { look_timeout, retry_max, .. } = self.limits;
        PollSchedule { interval: self.interval, sample_timeout: look_timeout, retry_max }
    }

    /// Returns the limits of label values.
    pub fn label_limits(&self) -> LabelLimits {
        self.limits.label_limits()
    }

    /// Returns whether any source is configured.
    pub fn has_source(&self) -> bool {
        !self.redis.is_empty() || self.postgres.is_some()
    }

    /// Returns whether a Redis is observed.
    pub fn has_redis(&self) -> bool {
        !self.redis.is_empty()
    }

    /// Returns a Redis that is configured twice, if there is one.
    pub fn duplicate_redis(&self) -> Option<String> {
        let at = |endpoint: &RedisEndpoint| (endpoint.address.clone(), endpoint.database);
        let is_twice = |(place, endpoint): &(usize, &RedisEndpoint)| {
            self.redis[..*place].iter().any(|other| at(other) == at(endpoint))
        };
        let twice = self.redis.iter().enumerate().find(is_twice);
        twice.map(|(_, endpoint)| endpoint.to_string())
    }

    /// Returns the sources to observe.
    pub fn sources(&self) -> Sources {
        let postgres = self.postgres.as_ref().and_then(|postgres| {
            let endpoint = postgres.endpoint.clone()?;
            let (limits, memory_bytes) = (self.limits.postgres(), postgres.memory_bytes);
            Some(PostgresSource { endpoint, limits, memory_bytes })
        });
        Sources {
            redis: self.redis.clone(),
            limits: self.limits.redis(),
            postgres,
            services: self.pools.iter().map(|pool| pool.0.clone()).collect(),
            pooler: self.pgbouncer.connections,
            pgbouncer: self.pgbouncer.source(self.limits.postgres()),
            pushed_queues: self.pushes.clone(),
            window: self.interval,
            proc: Some(PathBuf::from("/proc")),
        }
    }

    /// Returns the database, with the limits of a snapshot of it.
    pub fn postgres(&self) -> Option<PostgresSource> {
        self.sources().postgres
    }

    /// Returns the secrets, for comparison, because displayed values omit them.
    pub fn secrets(&self) -> impl PartialEq + use<> {
        let redis: Vec<_> = self.redis.iter().map(redis::secrets).collect();
        let postgres = self.postgres.as_ref().and_then(|it| it.endpoint.as_ref());
        (redis, postgres.and_then(|endpoint| endpoint.password.clone()), self.pgbouncer.password())
    }
}
