//! Two looks at all sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_advisor::observation::{
    ConnectionPools, Fact, JobProcess, Missing, Observation, PgBouncer, RedisServer,
    SidekiqObservation,
};
use weir_base::clock::Timestamp;
use weir_sidekiq::{
    ProcessSample, RedisConnection, RedisEndpoint, RedisSnapshot, SampleLimits, SampleScope,
    SidekiqError,
};

use crate::counting::{self, QueueLengths, Variances};
use crate::machine::{self, Counters};
use crate::pgbouncer::{self, PgBouncerSource};
use crate::postgres::{Database, PostgresSource};
use crate::recent::RecentSamples;
use crate::shards::{self, Described, ShardSamples};
use crate::{pooler, presence, redis, services};

/// What to look at.
#[derive(Clone, Debug)]
pub struct Sources {
    /// One, or each shard.
    pub redis: Vec<RedisEndpoint>,
    /// What a look may cost each of them.
    pub limits: SampleLimits,
    /// The application's database; none: not asked.
    pub postgres: Option<PostgresSource>,
    /// Who opens connections to it, beside Sidekiq's processes; of the same name, instead of them.
    pub services: Vec<ConnectionPools>,
    /// Connections that a pooler in between opens at most; 0: nothing stands between, none: nobody said.
    pub pooler: Option<u32>,
    /// The PgBouncer that stands between; none: not asked.
    pub pgbouncer: Option<PgBouncerSource>,
    /// The queues that the application pushes to; none: not asked.
    pub pushed_queues: Vec<String>,
    /// Between the two looks: longer tells slower changes from chance.
    pub window: Duration,
    /// Where the kernel tells of this machine; none: not asked.
    pub proc: Option<PathBuf>,
}

impl Sources {
    /// Long enough for a time to drain within 6 %, as measured; short enough to wait for.
    pub const WINDOW: Duration = Duration::from_secs(10);
}

/// Looks twice. No source's failure is one of the others.
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
    let local = proc.map(|proc| local_processes(proc, snapshots())).unwrap_or_default();
    let counters = |proc: &Path| Counters::read(proc, local.values().copied());
    let earlier = proc.and_then(counters);
    count_meanwhile(&mut shards, sources).await;
    let mut looks = Vec::new();
    for shard in &mut shards {
        looks.push(shard.sample_again(&sources.limits).await);
    }
    let later = proc.and_then(counters);
    let variances = shards.iter().zip(&looks).map(|(shard, look)| shard.variances(look));
    let variances: Vec<Variances> = variances.map(Option::unwrap_or_default).collect();
    let mut observation = shards::of_jobs(sources, &names, looks, Described::First, &local);
    set_deviations(&mut observation, variances);
    if let ([shard], Fact::Known(jobs)) = (&shards[..], &mut observation.jobs) {
        shard.lately.add_to(jobs);
    }
    observation.redis = shards.iter().map(ObservedShard::server).collect();
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
        cores_used(&mut observation, &local, &earlier, &later);
    }
    if let Some(proc) = proc {
        presence::see(&mut observation, &local, proc);
    }
    observation
}

/// Until the window is over.
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

/// Of each shard its own, and of all together their sum.
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

/// What follows from what the database and the pooler say, if they were asked.
pub(crate) fn add_database(observation: &mut Observation, sources: &Sources) {
    if sources.postgres.is_some() || sources.pgbouncer.is_some() {
        observation.pooler = pooler::pooler(sources, observation);
    }
    if let Some(seen) = observation.postgres.known() {
        services::add_clients(&mut observation.services, &seen.clients);
    }
}

/// A Redis, as far as it could be seen.
struct ObservedShard {
    name: String,
    database: i64,
    /// Where Sentinels have said that it is.
    master: Option<String>,
    seen: Result<(RedisConnection, RedisSnapshot), Missing>,
    counts: QueueLengths,
    lately: RecentSamples,
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
        Self { name, database, master, seen, counts, lately }
    }

    async fn count(&mut self, limits: &SampleLimits) {
        let Ok((connection, _)) = &mut self.seen else { return };
        let Some(at) = self.counts.count(connection).await else { return };
        if self.lately.is_due(at) {
            // Who can't be asked again is not counted; the second look says why.
            if let Ok(Ok(processes)) = connection.processes(limits).await {
                note_in_hand(&mut self.lately, at, &processes);
            }
        }
    }

    fn variances(&self, look: &ShardSamples) -> Option<Variances> {
        look.as_ref().ok().map(|(_, second)| self.counts.variances(second))
    }

    async fn first(
        endpoint: &RedisEndpoint,
        limits: &SampleLimits,
        master: &mut Option<String>,
    ) -> Result<(RedisConnection, RedisSnapshot), SidekiqError> {
        let mut connection = RedisConnection::open(endpoint, limits).await?;
        // It is known also of one that then answers nothing.
        *master = connection.master().map(str::to_owned);
        let snapshot = connection.sample(SampleScope::Everything, limits).await?;
        Ok((connection, snapshot))
    }

    /// Both looks.
    async fn sample_again(&mut self, limits: &SampleLimits) -> ShardSamples {
        let (connection, first) = self.seen.as_mut().map_err(|missing| missing.clone())?;
        match second(connection, first, limits).await {
            Ok(second) => Ok((first.clone(), second)),
            Err(error) => Err(redis::unreachable(&format!("Redis {}", self.name), &error)),
        }
    }

    fn server(&self) -> Fact<RedisServer> {
        match &self.seen {
            Ok((_, snapshot)) => redis::server(&self.name, self.database, snapshot),
            Err(missing) => Fact::Unknown(missing.clone()),
        }
    }
}

fn note_in_hand(lately: &mut RecentSamples, at: Timestamp, processes: &[ProcessSample]) {
    let mut in_hand: BTreeMap<&str, u64> = BTreeMap::new();
    for work in processes.iter().flat_map(|process| &process.work) {
        *in_hand.entry(&work.queue).or_default() += 1;
    }
    lately.note(at, in_hand.into_iter().map(|(queue, count)| (queue, count, 0.0)));
}

/// What has changed, and which processes have a heartbeat still.
async fn second(
    connection: &mut RedisConnection,
    first: &RedisSnapshot,
    limits: &SampleLimits,
) -> Result<RedisSnapshot, SidekiqError> {
    let mut second = connection.sample_since(SampleScope::Changes, Some(first.at), limits).await?;
    let mut processes = first.processes.clone().unwrap_or_default();
    let identities: Vec<_> = processes.iter().map(|process| process.identity.clone()).collect();
    // Who may not be asked again is taken to be as it was.
    if let Ok(beats) = connection.heartbeats(&identities).await? {
        processes.retain_mut(|process| {
            let Some(now) = beats.get(&process.identity) else { return false };
            (process.beat, process.quiet) = (now.beat, now.quiet);
            true
        });
    }
    second.processes = Ok(processes);
    Ok(second)
}

/// Sidekiq's processes that say to run on this machine, by identity.
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
        // A number alone may be another process's, on another machine.
        let pid = local.get(&process.identity);
        if let Some(used) = pid.and_then(|pid| later.used_since(earlier, *pid)) {
            process.cores_used = Fact::Known(used);
        }
    }
}

/// Sidekiq's processes, wherever they are listed.
pub(crate) fn job_processes(
    observation: &mut Observation,
) -> impl Iterator<Item = &mut JobProcess> {
    all_jobs(observation).flat_map(|jobs| &mut jobs.processes)
}

/// Of each shard, and of all together.
pub(crate) fn all_jobs(
    observation: &mut Observation,
) -> impl Iterator<Item = &mut SidekiqObservation> {
    let shards = observation.shards.iter_mut().map(|shard| &mut shard.jobs);
    let all = shards.chain([&mut observation.jobs]);
    all.filter_map(|jobs| if let Fact::Known(jobs) = jobs { Some(jobs) } else { None })
}
