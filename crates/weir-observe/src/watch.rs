//! Samples all sources repeatedly. Each sample is compared with the previous one.
//!
//! A source keeps its connection between samples. If it fails, its facts are unknown, with its
//! error, and it is skipped for a while, longer after each failure. It delays other sources by at
//! most [`PollSchedule::sample_timeout`].

mod database;
mod goodput;
mod past;
mod pooler;
mod retry;
mod shard;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_advisor::levels::Levels;
use weir_advisor::observation::{Fact, Observation, SourceState};
use weir_base::clock::{Clock, Timestamp};

use self::database::WatchedDatabase;
use self::past::Past;
use self::pooler::WatchedPooler;
use self::shard::WatchedShard;
use crate::machine::{self, Counters};
use crate::observe::{self, Sources};
use crate::recent::RecentSamples;
use crate::shards::{self, ShardSamples};
use crate::{presence, redis, services};

/// The interval and the timeouts of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollSchedule {
    /// Time from the start of one sample to the start of the next.
    pub interval: Duration,
    /// Timeout for sampling one source.
    pub sample_timeout: Duration,
    /// Longest time for which a source is skipped after failures.
    pub retry_max: Duration,
}

/// The result of sampling all sources once.
#[derive(Clone, Debug)]
pub struct Round {
    /// When sampling ended.
    pub at: Timestamp,
    /// How long sampling took.
    pub took: Duration,
    /// The resulting observation.
    pub observation: Observation,
    /// The state of each source.
    pub sources: Vec<SourceState>,
}

/// Samples the sources repeatedly.
#[derive(Debug)]
pub struct Watcher {
    /// `window` is not used, because each sample is compared with the previous one.
    sources: Sources,
    schedule: PollSchedule,
    clock: Clock,
    shards: Vec<WatchedShard>,
    database: Option<Box<WatchedDatabase>>,
    pooler: Option<Box<WatchedPooler>>,
    earlier: Option<Counters>,
    /// The Sidekiq processes that were seen on this machine, as process IDs by identity.
    confirmed: BTreeMap<String, u32>,
    /// The quiet processes of the previous round.
    before: Option<Observation>,
    levels: Levels,
    /// Recent samples of all shards together, followed by those of each if there are several.
    lately: Vec<RecentSamples>,
    /// The past of each, in the same order.
    past: Vec<Past>,
}

impl Watcher {
    /// Creates a watcher without connecting. `random` varies the times of retries between several
    /// watchers.
    #[must_use]
    pub fn new(
        sources: Sources,
        schedule: PollSchedule,
        clock: Clock,
        random: &mut fastrand::Rng,
    ) -> Self {
        let names = shards::names(&sources);
        let of = |(endpoint, name)| WatchedShard::new(endpoint, name, schedule, random.fork());
        let shards: Vec<_> = sources.redis.iter().zip(names).map(of).collect();
        let database = sources.postgres.as_ref();
        let database =
            database.map(|source| Box::new(WatchedDatabase::new(source, schedule, random.fork())));
        let pooler = sources.pgbouncer.as_ref();
        let pooler =
            pooler.map(|source| Box::new(WatchedPooler::new(source, schedule, random.fork())));
        Self {
            shards,
            database,
            pooler,
            earlier: None,
            confirmed: BTreeMap::new(),
            before: None,
            levels: Levels::default(),
            lately: Vec::new(),
            past: Vec::new(),
            sources,
            schedule,
            clock,
        }
    }

    /// Samples all sources once. If the future is dropped, its connections are closed and the
    /// watcher must not be used again.
    pub async fn round(&mut self) -> Round {
        let began = self.clock.now();
        let proc = self.sources.proc.clone();
        let proc = proc.as_deref();
        let ended = proc.map(|proc| presence::ended(proc, &self.confirmed)).unwrap_or_default();
        let samples = self.sample_shards().await;
        let redis = self.shards.iter().zip(&samples).map(|(shard, sample)| server(shard, sample));
        let redis = redis.collect();
        let seconds = || samples.iter().flatten().map(|(_, second)| second);
        let reported =
            proc.map(|proc| observe::local_processes(proc, seconds())).unwrap_or_default();
        let local = proc.map(|proc| presence::confirmed(proc, &reported)).unwrap_or_default();
        let names: Vec<_> = self.shards.iter().map(|it| it.state().name.clone()).collect();
        let mut observation = shards::of_jobs(&self.sources, &names, samples, &local);
        observation.redis = redis;
        shards::name_masters(&mut observation, self.shards.iter().map(WatchedShard::master));
        if let Some(database) = &mut self.database {
            let names = services::names(shards::processes(&observation).as_ref(), &local);
            observation.postgres = database.sample(proc, &names, self.schedule, &self.clock).await;
        }
        if let Some(pooler) = &mut self.pooler {
            observation.pgbouncer = pooler.sample(self.schedule, &self.clock).await;
        }
        observe::add_database(&mut observation, &self.sources);
        self.sample_machine(proc, &local, &mut observation);
        if let Some(proc) = proc {
            self.confirmed.retain(|identity, _| reported.contains_key(identity));
            self.confirmed.extend(local);
            presence::see(&mut observation, &reported, &ended, &self.sources.redis_ports(), proc);
        }
        if let Some(before) = &self.before {
            observation.remember(before);
        }
        self.before = Some(observation.only_quiet());
        let at = self.clock.now();
        self.add_lately(&mut observation, at);
        observation.goodput = goodput::of_sidekiq(&mut self.levels, &observation, at);
        let sources = self.shards.iter().map(WatchedShard::state);
        let sources = sources.chain(self.database.as_ref().map(|database| database.state()));
        let sources = sources.chain(self.pooler.as_ref().map(|pooler| pooler.state()));
        Round { at, took: at.since(began), sources: sources.cloned().collect(), observation }
    }

    /// Closes the connections to the database and the pooler, which frees their slots without a log
    /// entry.
    pub async fn close(self) {
        if let Some(database) = self.database {
            database.close().await;
        }
        if let Some(pooler) = self.pooler {
            pooler.close().await;
        }
    }

    /// Samples all shards concurrently, so that a slow one does not delay the others.
    async fn sample_shards(&mut self) -> Vec<ShardSamples> {
        let mut sampling = JoinSet::new();
        for (place, mut shard) in std::mem::take(&mut self.shards).into_iter().enumerate() {
            let (limits, schedule, clock) =
                (self.sources.limits, self.schedule, self.clock.clone());
            sampling.spawn(async move {
                let samples = shard.sample(&limits, schedule, &clock).await;
                (place, shard, samples)
            });
        }
        let mut sampled = sampling.join_all().await;
        sampled.sort_by_key(|(place, ..)| *place);
        let (shards, samples) =
            sampled.into_iter().map(|(_, shard, samples)| (shard, samples)).unzip();
        self.shards = shards;
        samples
    }

    fn add_lately(&mut self, observation: &mut Observation, at: Timestamp) {
        let shards = observation.shards.iter_mut().map(|shard| &mut shard.jobs);
        let all = std::iter::once(&mut observation.jobs).chain(shards);
        for (place, jobs) in all.enumerate() {
            if self.lately.len() <= place {
                self.lately.push(RecentSamples::default());
                self.past.push(Past::default());
            }
            if let Fact::Known(jobs) = jobs {
                self.lately[place].note_jobs(at, jobs);
                self.lately[place].add_to(jobs);
                self.past[place].note(at, jobs);
            }
        }
    }

    fn sample_machine(
        &mut self,
        proc: Option<&Path>,
        local: &BTreeMap<String, u32>,
        observation: &mut Observation,
    ) {
        let Some(proc) = proc else { return };
        let Some(later) = Counters::read(proc, local.values().copied()) else { return };
        if let Some(earlier) = self.earlier.replace(later.clone()) {
            observation.machine = machine::machine(proc, Some(&earlier), Some(&later));
            observation.programs = later.programs_since(&earlier);
            observation.cpu_limits = later.cpu_limits_since(&earlier);
            observe::cores_used(observation, local, &earlier, &later);
        }
    }
}

fn server(
    shard: &WatchedShard,
    sample: &ShardSamples,
) -> Fact<weir_advisor::observation::RedisServer> {
    match sample {
        Ok((earlier, later)) => shard.server(later).map(|mut server| {
            server.lately = redis::recent_operations(earlier, later);
            server
        }),
        Err(missing) => Fact::Unknown(missing.clone()),
    }
}
