//! `[observe]`: a Sidekiq, its Redis and its Postgres that Weir looks at all the time. The table switches
//! it on.

mod limits;
mod pgbouncer;
mod postgres;
mod redis;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use weir_advisor::figures::LabelLimits;
use weir_advisor::observation::Service;
use weir_observe::{Pace, PostgresLimits, PostgresSource, Sources};
use weir_sidekiq::Endpoint;

use self::pgbouncer::PgBouncer;
use self::postgres::Postgres;
use super::keys::{Key, Keys};
use weir_settings::{DAY, HOUR, SECOND};

/// What is looked at, how often, and how long it is remembered.
#[derive(Clone, Debug)]
pub struct Observe {
    /// The table is in the file.
    pub is_enabled: bool,
    pub pace: Pace,
    /// How long charts remember every minute.
    pub history_kept: Duration,
    pub labels: LabelLimits,
    redis: Vec<Endpoint>,
    postgres: Option<Postgres>,
    pools: Vec<Pool>,
    pgbouncer: PgBouncer,
    pushes: Vec<String>,
    limits: weir_sidekiq::Limits,
    postgres_limits: PostgresLimits,
}

impl Default for Observe {
    fn default() -> Self {
        Self {
            is_enabled: false,
            pace: Pace {
                // A look costs Redis some milliseconds; a queue of Mastodon's changes in seconds.
                interval: SECOND * 15,
                look_timeout: SECOND * 10,
                retry_max: SECOND * 300,
            },
            history_kept: DAY * 30,
            labels: LabelLimits::default(),
            redis: Vec::new(),
            postgres: None,
            pools: Vec::new(),
            pgbouncer: PgBouncer::default(),
            pushes: Vec::new(),
            limits: weir_sidekiq::Limits::default(),
            postgres_limits: PostgresLimits { statements_max: 20, ..PostgresLimits::default() },
        }
    }
}

/// What opens connections to the database, as `weir doctor --pool` takes it.
#[derive(Clone, Debug)]
struct Pool(Service);

impl FromStr for Pool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        super::pool(text).map(Self)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Service { name, processes, pool, threads, .. } = &self.0;
        write!(formatter, "{name}={processes}x{pool}")?;
        threads.map_or(Ok(()), |threads| write!(formatter, "/{threads}"))
    }
}

/// The table, which switches the part on.
pub(crate) fn read_section(observe: &mut Observe, table: &mut Keys<'_>) {
    observe.is_enabled = table.is_set("observe");
    table.section("observe", |table| observe.read(table));
}

impl Observe {
    pub(super) fn read(&mut self, keys: &mut Keys<'_>) {
        keys.duration(
            Key::fixed("interval", "From one look to the next. Each look is compared with the one before it: a longer interval tells slower changes from chance, a shorter one shows them sooner."),
            SECOND..=HOUR,
            &mut self.pace.interval,
        );
        keys.parsed_texts(
            Key::fixed("pools", "What opens connections to the database and is no Sidekiq, or has another pool than it has threads: \"web=2x5\" are two processes with a pool of five each, \"web=2x5/16\" the same with 16 threads each. \"sidekiq\" are all of Sidekiq's processes."),
            &mut self.pools,
        );
        self.pgbouncer.read(keys);
        keys.texts(
            Key::fixed("pushes", "Queues that the application pushes to: those that nobody serves are found before their first job."),
            &mut self.pushes,
        );
        keys.duration(
            Key::fixed("history_kept", "How long the charts of what is observed reach back."),
            HOUR..=DAY * 400,
            &mut self.history_kept,
        );
        let shards = &mut self.redis;
        keys.each("redis", |keys| shards.extend(redis::read(keys)));
        let mut postgres = Postgres::default();
        let has_postgres = keys.is_set("postgres");
        keys.section("postgres", |keys| postgres.read(keys, has_postgres));
        self.postgres = has_postgres.then_some(postgres);
        keys.section("limits", |keys| {
            limits::read(keys, &mut self.pace, &mut self.labels);
            limits::read_redis(keys, &mut self.limits);
            limits::read_postgres(keys, &mut self.postgres_limits);
        });
    }

    /// Whether it says where anything is.
    pub fn names_a_source(&self) -> bool {
        !self.redis.is_empty() || self.postgres.is_some()
    }

    /// A Redis that is one shard and another.
    pub fn named_twice(&self) -> Option<String> {
        let at = |endpoint: &Endpoint| (endpoint.address.clone(), endpoint.database);
        let is_twice = |(place, endpoint): &(usize, &Endpoint)| {
            self.redis[..*place].iter().any(|other| at(other) == at(endpoint))
        };
        let twice = self.redis.iter().enumerate().find(is_twice);
        twice.map(|(_, endpoint)| endpoint.to_string())
    }

    /// What to look at.
    pub fn sources(&self) -> Sources {
        let postgres = self.postgres.as_ref().and_then(|postgres| {
            let endpoint = postgres.endpoint.clone()?;
            let (limits, memory_bytes) = (self.postgres_limits, postgres.memory_bytes);
            Some(PostgresSource { endpoint, limits, memory_bytes })
        });
        Sources {
            redis: self.redis.clone(),
            limits: self.limits,
            postgres,
            services: self.pools.iter().map(|pool| pool.0.clone()).collect(),
            pooler: self.pgbouncer.connections,
            pgbouncer: self.pgbouncer.source(self.postgres_limits),
            pushed_queues: self.pushes.clone(),
            window: self.pace.interval,
            proc: Some(PathBuf::from("/proc")),
        }
    }

    /// Its secrets, to be compared: they show no value.
    pub fn secrets(&self) -> impl PartialEq + use<> {
        let redis: Vec<_> = self.redis.iter().map(redis::secrets).collect();
        let postgres = self.postgres.as_ref().and_then(|it| it.endpoint.as_ref());
        (redis, postgres.and_then(|endpoint| endpoint.password.clone()), self.pgbouncer.password())
    }
}
