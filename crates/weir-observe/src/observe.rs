//! Takes two samples of all sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_advisor::observation::{
    ConnectionPools, Fact, JobProcess, Missing, Observation, PgBouncer, RedisServer,
    ServedDatabase, SidekiqObservation,
};
use weir_base::clock::Timestamp;
use weir_sidekiq::{
    ProcessSample, RedisAddress, RedisConnection, RedisEndpoint, RedisSnapshot, SampleLimits,
    SampleScope, SidekiqError,
};

use crate::counting::{self, QueueLengths, Variances};
use crate::machine::{self, Counters};
use crate::pgbouncer::{self, PgBouncerSource};
use crate::postgres::{Database, PostgresSource};
use crate::recent::RecentSamples;
use crate::shards::{self, ShardSamples};
use crate::{pooler, presence, redis, services};

/// Maximum number of other databases of a Redis in which live processes are searched for. Redis has 16
/// by default.
const DATABASES_MAX: usize = 16;

/// The sources to observe, and limits.
#[derive(Clone, Debug)]
pub struct Sources {
    /// One Redis, or each shard.
    pub redis: Vec<RedisEndpoint>,
    /// Limits of the cost of a sample for each Redis.
    pub limits: SampleLimits,
    /// The application's database, if it is to be observed.
    pub postgres: Option<PostgresSource>,
    /// Services that open connections to the database, in addition to Sidekiq's processes. Entries
    /// override detected services of the same name.
    pub services: Vec<ConnectionPools>,
    /// The most connections that a pooler opens. `Some(0)`: there is no pooler; `None`: unknown.
    pub pooler: Option<u32>,
    /// The PgBouncer in front of the database, if it is to be queried.
    pub pgbouncer: Option<PgBouncerSource>,
    /// The queues that the application pushes to, if known.
    pub pushed_queues: Vec<String>,
    /// Time between the two samples. With a longer one, slower changes can be told from chance.
    pub window: Duration,
    /// Path of the proc file system, if this machine is to be observed.
    pub proc: Option<PathBuf>,
}

impl Sources {
    /// Long enough for a time to drain to within 6 %, as measured; short enough to wait for.
    pub const WINDOW: Duration = Duration::from_secs(10);

    /// Returns the TCP ports of the Redis servers, without those that only Sentinel knows.
    pub(crate) fn redis_ports(&self) -> BTreeSet<u16> {
        let port = |endpoint: &RedisEndpoint| match endpoint.address {
            RedisAddress::Tcp { port, .. } => Some(port),
            RedisAddress::Unix(_) | RedisAddress::Sentinel(_) => None,
        };
        self.redis.iter().filter_map(port).collect()
    }
}

/// Takes two samples. The failure of a source does not affect the others.
pub async fn observe(sources: &Sources) -> Observation {
    let mut shards: Vec<ObservedShard> = Vec::new();
    let names = shards::names(sources);
    for (endpoint, name) in sources.redis.iter().zip(&names) {
        shards.push(ObservedShard::sample(endpoint, name, &sources.limits).await);
    }
    let proc = sources.proc.as_deref();
    let database = match &sources.postgres {
        Some(source) => Some(Database::sample(source, proc).await),
        None => None,
    };
    let snapshots = || shards.iter().filter_map(|shard| Some(&shard.seen.as_ref().ok()?.1));
    let confirmed = |proc: &Path| presence::confirmed(proc, &local_processes(proc, snapshots()));
    let local = proc.map(confirmed).unwrap_or_default();
    let counters = |proc: &Path| Counters::read(proc, local.values().copied());
    let earlier = proc.and_then(counters);
    count_meanwhile(&mut shards, sources).await;
    let ended = proc.map(|proc| presence::ended(proc, &local)).unwrap_or_default();
    let mut samples = Vec::new();
    for shard in &mut shards {
        samples.push(shard.sample_again(&sources.limits).await);
    }
    let later = proc.and_then(counters);
    let variances = shards.iter().zip(&samples).map(|(shard, sample)| shard.variances(sample));
    let variances: Vec<Variances> = variances.map(Option::unwrap_or_default).collect();
    let seconds = samples.iter().flatten().map(|(_, second)| second);
    let reported = proc.map(|proc| local_processes(proc, seconds)).unwrap_or_default();
    let servers = shards.iter().zip(&samples).map(|(shard, sample)| shard.server(sample));
    let servers = servers.collect();
    let mut observation = shards::of_jobs(sources, &names, samples, &local);
    set_deviations(&mut observation, variances);
    if let ([shard], Fact::Known(jobs)) = (&shards[..], &mut observation.jobs) {
        shard.lately.add_to(jobs);
    }
    observation.redis = servers;
    shards::name_masters(&mut observation, shards.iter().map(|shard| shard.master.as_deref()));
    if let Some(mut database) = database {
        let names = services::names(shards::processes(&observation).as_ref(), &local);
        let postgres = database.sample_again(proc, &names).await;
        database.close().await;
        observation.postgres = postgres;
    }
    observation.pgbouncer = sample_pooler(sources).await;
    add_database(&mut observation, sources);
    if let Some(proc) = proc {
        observation.machine = machine::machine(proc, earlier.as_ref(), later.as_ref());
    }
    if let (Some(earlier), Some(later)) = (earlier, later) {
        observation.programs = later.programs_since(&earlier);
        observation.cpu_limits = later.cpu_limits_since(&earlier);
        cores_used(&mut observation, &local, &earlier, &later);
    }
    if let Some(proc) = proc {
        presence::see(&mut observation, &reported, &ended, &sources.redis_ports(), proc);
    }
    observation
}

/// Counts waiting jobs until the window ends.
async fn count_meanwhile(shards: &mut [ObservedShard], sources: &Sources) {
    let from = tokio::time::Instant::now();
    for moment in counting::moments(sources.window) {
        tokio::time::sleep_until(from + moment).await;
        for shard in &mut *shards {
            shard.count(&sources.limits).await;
        }
    }
    tokio::time::sleep_until(from + sources.window).await;
}

/// Sets the deviations of each shard's queues, and those of the sums over all shards.
fn set_deviations(observation: &mut Observation, variances: Vec<Variances>) {
    for (shard, variances) in observation.shards.iter_mut().zip(&variances) {
        deviate(&mut shard.jobs, variances);
    }
    deviate(&mut observation.jobs, &counting::joined(variances));
}

fn deviate(jobs: &mut Fact<SidekiqObservation>, variances: &Variances) {
    let Fact::Known(jobs) = jobs else { return };
    for queue in &mut jobs.queues {
        if let (Fact::Known(flow), Some(variance)) = (&mut queue.flow, variances.get(&queue.name)) {
            flow.deviation = Some(variance.sqrt());
        }
    }
}

async fn sample_pooler(sources: &Sources) -> Fact<PgBouncer> {
    let Some(source) = &sources.pgbouncer else { return Fact::NotAsked };
    let (connection, seen) = pgbouncer::sample(source, None).await;
    if let Some(connection) = connection {
        connection.close().await;
    }
    seen
}

/// Adds facts that are derived from the database and the pooler, if those were queried.
pub(crate) fn add_database(observation: &mut Observation, sources: &Sources) {
    if sources.postgres.is_some() || sources.pgbouncer.is_some() {
        observation.pooler = pooler::pooler(sources, observation);
    }
    if let Some(seen) = observation.postgres.known() {
        services::add_clients(&mut observation.services, &seen.clients);
    }
}

/// A Redis with its samples, as far as it could be read.
struct ObservedShard {
    name: String,
    database: i64,
    /// The master's address from Sentinel.
    master: Option<String>,
    seen: Result<(RedisConnection, RedisSnapshot), Missing>,
    counts: QueueLengths,
    lately: RecentSamples,
    served_elsewhere: Vec<ServedDatabase>,
}

impl ObservedShard {
    async fn sample(endpoint: &RedisEndpoint, name: &str, limits: &SampleLimits) -> Self {
        let (name, database) = (name.to_owned(), endpoint.database);
        let mut master = None;
        let seen = Self::first(endpoint, limits, &mut master).await;
        let seen = seen.map_err(|error| redis::unreachable(&format!("Redis {name}"), &error));
        let counts = seen.as_ref().map(|(_, first)| QueueLengths::of(first)).unwrap_or_default();
        let mut lately = RecentSamples::default();
        if let Ok((_, RedisSnapshot { at, processes: Ok(processes), .. })) = &seen {
            note_in_hand(&mut lately, *at, processes);
        }
        let served_elsewhere = match &seen {
            Ok((_, first)) => served_elsewhere(endpoint, first, limits).await,
            Err(_) => Vec::new(),
        };
        Self { name, database, master, seen, counts, lately, served_elsewhere }
    }

    async fn count(&mut self, limits: &SampleLimits) {
        let Ok((connection, _)) = &mut self.seen else { return };
        let Some(at) = self.counts.count(connection).await else { return };
        if self.lately.is_due(at) {
            // Errors are ignored here, because the second sample reports them.
            if let Ok(Ok(processes)) = connection.processes(limits).await {
                note_in_hand(&mut self.lately, at, &processes);
            }
        }
    }

    fn variances(&self, sample: &ShardSamples) -> Option<Variances> {
        sample.as_ref().ok().map(|(_, second)| self.counts.variances(second))
    }

    async fn first(
        endpoint: &RedisEndpoint,
        limits: &SampleLimits,
        master: &mut Option<String>,
    ) -> Result<(RedisConnection, RedisSnapshot), SidekiqError> {
        let mut connection = RedisConnection::open(endpoint, limits).await?;
        // The address is known even if the server then fails.
        *master = connection.master().map(str::to_owned);
        let snapshot = connection.sample(SampleScope::Everything, limits).await?;
        Ok((connection, snapshot))
    }

    /// Takes the second sample and returns both.
    async fn sample_again(&mut self, limits: &SampleLimits) -> ShardSamples {
        let (connection, first) = self.seen.as_mut().map_err(|missing| missing.clone())?;
        let second = connection.sample_since(SampleScope::Changes, Some(first.lengths_at), limits);
        match second.await {
            Ok(second) => Ok((first.clone(), second)),
            Err(error) => Err(redis::unreachable(&format!("Redis {}", self.name), &error)),
        }
    }

    fn server(&self, sample: &ShardSamples) -> Fact<RedisServer> {
        match &self.seen {
            Ok((_, snapshot)) => redis::server(&self.name, self.database, snapshot).map(|server| {
                let lately = sample.as_ref().map_or(Fact::NotAsked, |(first, second)| {
                    redis::recent_operations(first, second)
                });
                let served_elsewhere = self.served_elsewhere.clone();
                RedisServer { served_elsewhere, lately, ..server }
            }),
            Err(missing) => Fact::Unknown(missing.clone()),
        }
    }
}

/// Returns the other databases of a Redis with live processes, if the one that was read has none. Each
/// takes a connection of its own; errors are ignored, because this is only a hint.
async fn served_elsewhere(
    endpoint: &RedisEndpoint,
    first: &RedisSnapshot,
    limits: &SampleLimits,
) -> Vec<ServedDatabase> {
    let has_none = first.processes.as_ref().is_ok_and(Vec::is_empty);
    let Some(Ok(server)) = first.server.as_ref().filter(|_| has_none) else { return Vec::new() };
    let others = server.info.keyspaces.iter().map(|it| it.database);
    let mut served = Vec::new();
    for database in others.filter(|it| *it != endpoint.database).take(DATABASES_MAX) {
        let other = RedisEndpoint { database, ..endpoint.clone() };
        let Ok(mut connection) = RedisConnection::open(&other, limits).await else { break };
        let Ok(Ok(processes)) = connection.processes(limits).await else { break };
        if !processes.is_empty() {
            served.push(ServedDatabase { database, processes: processes.len() as u64 });
        }
    }
    served
}

fn note_in_hand(lately: &mut RecentSamples, at: Timestamp, processes: &[ProcessSample]) {
    let mut in_hand: BTreeMap<&str, u64> = BTreeMap::new();
    for work in processes.iter().flat_map(|process| &process.work) {
        *in_hand.entry(&work.queue).or_default() += 1;
    }
    lately.note(at, in_hand.into_iter().map(|(queue, count)| (queue, count, 0.0)));
}

/// Returns the process IDs of Sidekiq processes that report this machine as their host, by
/// identity. In a container with the same host name, a process ID may be another process' here.
pub(crate) fn local_processes<'a>(
    proc: &Path,
    snapshots: impl Iterator<Item = &'a RedisSnapshot>,
) -> BTreeMap<String, u32> {
    let Some(hostname) = machine::hostname(proc) else { return BTreeMap::new() };
    let processes = snapshots.filter_map(|snapshot| snapshot.processes.as_ref().ok()).flatten();
    let local = processes.filter(|process| process.hostname == hostname);
    local.map(|process| (process.identity.clone(), process.pid)).collect()
}

pub(crate) fn cores_used(
    observation: &mut Observation,
    local: &BTreeMap<String, u32>,
    earlier: &Counters,
    later: &Counters,
) {
    for process in job_processes(observation) {
        // A process ID alone is not enough, because another machine may use the same one.
        let pid = local.get(&process.identity);
        if let Some(used) = pid.and_then(|pid| later.used_since(earlier, *pid)) {
            process.cores_used = Fact::Known(used);
        }
    }
}

/// Returns all Sidekiq processes, wherever they are listed.
pub(crate) fn job_processes(
    observation: &mut Observation,
) -> impl Iterator<Item = &mut JobProcess> {
    all_jobs(observation).flat_map(|jobs| &mut jobs.processes)
}

/// Returns the jobs of each shard and of all together.
pub(crate) fn all_jobs(
    observation: &mut Observation,
) -> impl Iterator<Item = &mut SidekiqObservation> {
    let shards = observation.shards.iter_mut().map(|shard| &mut shard.jobs);
    let all = shards.chain([&mut observation.jobs]);
    all.filter_map(|jobs| if let Fact::Known(jobs) = jobs { Some(jobs) } else { None })
}
