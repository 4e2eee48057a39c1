//! Two looks at all sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_advisor::observation::{Fact, Jobs, Missing, Observation, Postgres, RedisServer, Service};
use weir_sidekiq::{Connection, Endpoint, Limits, Scope, SidekiqError, Snapshot, join};

use crate::counting::{self, Counts, Variances};
use crate::machine::{self, Counters};
use crate::postgres::{Database, PostgresSource};
use crate::{jobs, pooler, redis, services};

/// What to look at.
#[derive(Clone, Debug)]
pub struct Sources {
    /// One, or each shard.
    pub redis: Vec<Endpoint>,
    /// What a look may cost each of them.
    pub limits: Limits,
    /// The application's database; none: not asked.
    pub postgres: Option<PostgresSource>,
    /// Who opens connections to it, beside Sidekiq's processes; of the same name, instead of them.
    pub services: Vec<Service>,
    /// Connections that a pooler in between opens at most; 0: nothing stands between, none: nobody said.
    pub pooler: Option<u32>,
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
    let mut shards: Vec<Shard> = Vec::new();
    for endpoint in &sources.redis {
        shards.push(Shard::look(endpoint, &sources.limits).await);
    }
    let proc = sources.proc.as_deref();
    let database = match &sources.postgres {
        Some(source) => Some(Database::look(source, proc).await),
        None => None,
    };
    let snapshots = || shards.iter().filter_map(|shard| Some(&shard.seen.as_ref().ok()?.1));
    let local = proc.map(|proc| local_processes(proc, snapshots())).unwrap_or_default();
    let counters = |proc: &Path| Counters::read(proc, local.values().copied());
    let earlier = proc.and_then(counters);
    count_meanwhile(&mut shards, sources.window).await;
    let mut looks = Vec::new();
    for shard in &mut shards {
        looks.push(shard.look_again(&sources.limits).await);
    }
    let later = proc.and_then(counters);
    let variances = shards.iter().zip(&looks).filter_map(|(shard, look)| shard.variances(look));
    let variances = counting::joined(variances);
    let mut observation = of_jobs(sources, looks, Described::First, &local);
    set_deviations(&mut observation, &variances);
    observation.redis = shards.iter().map(Shard::server).collect();
    if let Some(mut database) = database {
        let names = services::names(observation.jobs.known(), &local);
        let postgres = database.look_again(proc, &names).await;
        database.close().await;
        add_database(&mut observation, sources, postgres);
    }
    if let Some(proc) = proc {
        observation.machine = machine::machine(proc, earlier.as_ref(), later.as_ref());
    }
    if let (Some(earlier), Some(later)) = (earlier, later) {
        cores_used(&mut observation, &local, &earlier, &later);
    }
    observation
}

/// Until the window is over.
async fn count_meanwhile(shards: &mut [Shard], window: Duration) {
    let from = tokio::time::Instant::now();
    for moment in counting::moments(window) {
        tokio::time::sleep_until(from + moment).await;
        for shard in &mut *shards {
            shard.count().await;
        }
    }
    tokio::time::sleep_until(from + window).await;
}

fn set_deviations(observation: &mut Observation, variances: &Variances) {
    let Fact::Known(jobs) = &mut observation.jobs else { return };
    for queue in &mut jobs.queues {
        if let (Fact::Known(flow), Some(variance)) = (&mut queue.flow, variances.get(&queue.name)) {
            flow.deviation = Some(variance.sqrt());
        }
    }
}

/// What the looks at all shards say, and what was given.
pub(crate) fn of_jobs(
    sources: &Sources,
    looks: Vec<Result<(Snapshot, Snapshot), Missing>>,
    described: Described,
    local: &BTreeMap<String, u32>,
) -> Observation {
    let mut observation = Observation {
        cut: cut(&looks),
        jobs: all_jobs(looks, described),
        ..Observation::default()
    };
    let started = services::started(sources.proc.as_deref(), local);
    observation.services =
        services::services(&sources.services, observation.jobs.known(), &started);
    if !sources.pushed_queues.is_empty() {
        observation.pushed_queues = Fact::Known(sources.pushed_queues.clone());
    }
    observation
}

/// What the database says, and what follows from it.
pub(crate) fn add_database(
    observation: &mut Observation,
    sources: &Sources,
    postgres: Fact<Postgres>,
) {
    observation.pooler = pooler::pooler(sources.pooler, &postgres, sources.proc.as_deref());
    if let Some(seen) = postgres.known() {
        services::add_clients(&mut observation.services, &seen.clients);
    }
    observation.postgres = postgres;
}

/// A Redis, as far as it could be seen.
struct Shard {
    name: String,
    seen: Result<(Connection, Snapshot), Missing>,
    counts: Counts,
}

impl Shard {
    async fn look(endpoint: &Endpoint, limits: &Limits) -> Self {
        let name = endpoint.to_string();
        let seen = Self::first(endpoint, limits).await;
        let seen = seen.map_err(|error| redis::unreachable(&format!("Redis {name}"), &error));
        let counts = seen.as_ref().map(|(_, first)| Counts::of(first)).unwrap_or_default();
        Self { name, seen, counts }
    }

    async fn count(&mut self) {
        if let Ok((connection, _)) = &mut self.seen {
            self.counts.count(connection).await;
        }
    }

    fn variances(&self, look: &Result<(Snapshot, Snapshot), Missing>) -> Option<Variances> {
        look.as_ref().ok().map(|(_, second)| self.counts.variances(second))
    }

    async fn first(
        endpoint: &Endpoint,
        limits: &Limits,
    ) -> Result<(Connection, Snapshot), SidekiqError> {
        let mut connection = Connection::open(endpoint, limits).await?;
        let snapshot = connection.look(Scope::Everything, limits).await?;
        Ok((connection, snapshot))
    }

    /// Both looks.
    async fn look_again(&mut self, limits: &Limits) -> Result<(Snapshot, Snapshot), Missing> {
        let (connection, first) = self.seen.as_mut().map_err(|missing| missing.clone())?;
        match connection.look(Scope::Changes, limits).await {
            Ok(second) => Ok((first.clone(), second)),
            Err(error) => Err(redis::unreachable(&format!("Redis {}", self.name), &error)),
        }
    }

    fn server(&self) -> Fact<RedisServer> {
        match &self.seen {
            Ok((_, snapshot)) => redis::server(&self.name, snapshot),
            Err(missing) => Fact::Unknown(missing.clone()),
        }
    }
}

/// Which of two looks was at everything, processes included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Described {
    First,
    Second,
}

/// Of all shards, or of none: a part of the jobs is not the jobs.
fn all_jobs(looks: Vec<Result<(Snapshot, Snapshot), Missing>>, described: Described) -> Fact<Jobs> {
    let looks: Vec<_> = match looks.into_iter().collect() {
        Ok(looks) => looks,
        Err(missing) => return Fact::Unknown(missing),
    };
    let (firsts, seconds): (Vec<_>, Vec<_>) = looks.into_iter().unzip();
    match (join(firsts), join(seconds)) {
        (Some(first), Some(second)) => {
            let described = match described {
                Described::First => &first,
                Described::Second => &second,
            };
            jobs::jobs(described, &first, &second)
        }
        _ => Fact::NotAsked,
    }
}

/// Limits that cut something off in one of the looks.
fn cut(looks: &[Result<(Snapshot, Snapshot), Missing>]) -> Vec<String> {
    let seen = looks.iter().flatten();
    let limits = seen.flat_map(|(first, second)| first.cut.iter().chain(&second.cut));
    limits.cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

/// Sidekiq's processes that say to run on this machine, by identity.
pub(crate) fn local_processes<'a>(
    proc: &Path,
    snapshots: impl Iterator<Item = &'a Snapshot>,
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
    let Fact::Known(jobs) = &mut observation.jobs else { return };
    for process in &mut jobs.processes {
        // A number alone may be another process's, on another machine.
        let pid = local.get(&process.identity);
        if let Some(used) = pid.and_then(|pid| later.used_since(earlier, *pid)) {
            process.cores_used = Fact::Known(used);
        }
    }
}
