//! All facts that can be known about a job system and the machines under it.

mod access;
mod cpu_limit;
mod exceptions;
mod fact;
mod failures;
mod front;
mod history;
mod jobs;
mod machine;
mod pgbouncer;
mod postgres;
mod postgres_access;
mod process;
mod redis;
mod redis_cache;
mod redis_info;
mod replication;
mod sidekiq;
mod slots;
mod source;
mod tables;

use serde::Serialize;

pub use self::access::RedisAccess;
pub use self::cpu_limit::CpuLimit;
pub use self::exceptions::{ConnectionLimit, Exceptions, Holder, SettingException};
pub use self::fact::{Fact, Missing, MissingReason};
pub use self::failures::{FailingClass, PayloadSize};
pub use self::front::{Goodput, RequestPath, Throughput};
pub use self::history::{ClassHistory, ClassRuns, DayCounts, PastSample, RunCounts};
pub use self::jobs::{
    FarAhead, JobSample, JobSet, ObservedQueue, RecentActivity, SampleShare, SidekiqObservation,
};
pub(crate) use self::jobs::{POOL_TIMEOUT, SET_ASIDE_SUFFIX, is_set_aside};
pub use self::machine::{
    BusyProgram, ConnectionPools, Machine, POOL_VARIABLE, Pooler, RAILS_POOL_VARIABLE, is_sidekiq,
};
pub use self::pgbouncer::{ConnectionPool, PgBouncer, PgBouncerSettings, PooledDatabase};
pub use self::postgres::{
    ClientProcess, DatabaseConnections, DatabaseHost, DatabaseObservation, LockWait,
    PostgresSettings, ReadOnly, SessionState, SessionWait, Sessions, SettingOrigin, StatementTimes,
    TableLockRequest, is_nearly_full, limit_for, slots_to_keep_free,
};
pub use self::postgres_access::PostgresAccess;
pub use self::process::{
    Capsule, JobInHand, JobProcess, MemoryGrowth, Ordering, ProcessPlace, ProcessPresence,
    WeightedQueue,
};
pub use self::redis::{CommandRate, RedisOperations, RedisServer, ServedDatabase, SlowCommand};
pub(crate) use self::redis_cache::CachePresence;
pub use self::redis_info::{AppendFsync, Keyspace, Master, Persistence, RedisInfo, redis_field};
pub use self::replication::{
    Replication, ReplicationSlot, SlotLimit, SynchronousCommit, WalStatus,
};
pub use self::sidekiq::ShardJobs;
pub(crate) use self::sidekiq::Sidekiq;
pub use self::source::{SourceKind, SourceState};
pub use self::tables::{DatabaseUpkeep, TableReads, TableStatistics, TemporaryFiles};
use crate::verdict::VerdictFinding;

/// The result of one sample, or of two samples some seconds apart.
///
/// `Default` has every fact as [`Fact::NotAsked`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct Observation {
    /// Queues, processes and sets of Sidekiq over all shards. Unknown if one shard is.
    pub jobs: Fact<SidekiqObservation>,
    /// The same per shard, in the order of `redis`. Empty if there is only one Redis.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardJobs>,
    /// The Redis servers with Sidekiq's data, one per shard.
    pub redis: Vec<Fact<RedisServer>>,
    /// Connection parameters of the Redis servers that need more than their name.
    #[serde(skip)]
    pub redis_access: Vec<RedisAccess>,
    /// The application's database.
    pub postgres: Fact<DatabaseObservation>,
    /// Connection parameters of the database.
    #[serde(skip)]
    pub postgres_access: Option<PostgresAccess>,
    /// The machine that the observer runs on.
    pub machine: Fact<Machine>,
    /// The programs that used most of its cores between two samples, busiest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<BusyProgram>,
    /// Limits of CPU time of the processes of interest on this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_limits: Vec<CpuLimit>,
    /// The services that open connections to the database, with the size of their pools.
    pub services: Fact<Vec<ConnectionPools>>,
    /// The pooler between the services and the database, or `None` if none was detected or
    /// configured.
    pub pooler: Option<Pooler>,
    /// Pools and settings of the pooler, if it is a PgBouncer and was queried.
    pub pgbouncer: Fact<PgBouncer>,
    /// The queues that the application's version pushes to.
    pub pushed_queues: Fact<Vec<String>>,
    /// Completion rates at different numbers of threads.
    pub goodput: Fact<Vec<Throughput>>,
    /// How long requests take inside the app and outside.
    pub requests: Fact<Vec<RequestPath>>,
    /// What a running Weir says is wrong with its own parts.
    pub own_findings: Fact<Vec<VerdictFinding>>,
    /// Limits of the observer that truncated the observation: "`queues_max` (1000)".
    pub cut: Vec<String>,
}

impl Observation {
    /// Returns the reasons for all facts that were queried and are not known.
    pub fn missing(&self) -> impl Iterator<Item = &Missing> {
        let postgres = self.postgres.known();
        [
            self.postgres.missing(),
            self.pgbouncer.missing(),
            self.machine.missing(),
            self.services.missing(),
            self.pushed_queues.missing(),
            self.goodput.missing(),
            self.requests.missing(),
            self.own_findings.missing(),
            postgres.and_then(|it| it.settings.missing()),
            postgres.and_then(|it| it.exceptions.missing()),
            postgres.and_then(|it| it.connections.missing()),
            postgres.and_then(|it| it.host.missing()),
            postgres.and_then(|it| it.cache_hit_ratio.missing()),
            postgres.and_then(|it| it.lock_waits.missing()),
            postgres.and_then(|it| it.waits.missing()),
            postgres.and_then(|it| it.replication.missing()),
            postgres.and_then(|it| it.synchronous.missing()),
            postgres.and_then(|it| it.tables.missing()),
            postgres.and_then(|it| it.upkeep.missing()),
        ]
        .into_iter()
        .chain(self.redis.iter().map(Fact::missing))
        .chain(self.redis.iter().filter_map(Fact::known).flat_map(RedisServer::missing))
        .flatten()
        .chain(self.each_jobs().filter_map(|(_, jobs)| jobs.missing()))
        .chain(self.each_jobs().filter_map(|(_, jobs)| jobs.known()).flat_map(|it| &it.unread))
    }
}
