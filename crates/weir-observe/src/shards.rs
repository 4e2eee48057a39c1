//! Combines the samples of one or several Redis servers, each by itself and all together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weir_advisor::observation::{
    Fact, Missing, Observation, RedisAccess, ShardJobs, SidekiqObservation,
};
use weir_sidekiq::{RedisAddress, RedisEndpoint, RedisSnapshot, join};

use crate::observe::Sources;
use crate::{jobs, services};

/// Returns an observation from the samples of all shards and the configured sources.
pub(crate) fn of_jobs(
    sources: &Sources,
    names: &[String],
    samples: Vec<ShardSamples>,
    local: &BTreeMap<String, u32>,
) -> Observation {
    let mut observation = Observation {
        cut: cut(&samples),
        shards: shards(names, &samples),
        jobs: all_jobs(samples),
        redis_access: access(&sources.redis, names),
        postgres_access: sources.postgres.as_ref().map(|source| source.endpoint.access()),
        ..Observation::default()
    };
    let seen = processes(&observation);
    let started = services::started(sources.proc.as_deref(), local);
    observation.services = services::services(&sources.services, seen.as_ref(), &started);
    if !sources.pushed_queues.is_empty() {
        observation.pushed_queues = Fact::Known(sources.pushed_queues.clone());
    }
    observation
}

/// Makes names unique: services with the same name may be monitored by different Sentinels.
pub(crate) fn names(sources: &Sources) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for name in sources.redis.iter().map(ToString::to_string) {
        let same =
            unique.iter().filter(|it| **it == name || it.starts_with(&format!("{name} ("))).count();
        unique.push(if same == 0 { name } else { format!("{name} ({})", same + 1) });
    }
    unique
}

/// Returns the connection parameters of each server, for commands that can be pasted.
fn access(endpoints: &[RedisEndpoint], names: &[String]) -> Vec<RedisAccess> {
    let path = |path: &Path| path.display().to_string();
    let of = |(endpoint, name): (&RedisEndpoint, &String)| RedisAccess {
        name: name.clone(),
        master: None,
        tls: match &endpoint.address {
            RedisAddress::Tcp { tls, .. } => *tls,
            RedisAddress::Unix(_) => false,
            RedisAddress::Sentinel(sentinel) => sentinel.tls,
        },
        authority: endpoint.tls.authority.as_deref().map(path),
        client: endpoint.tls.client.as_ref().map(|(shown, key)| (path(shown), path(key))),
        user: endpoint.username.clone(),
        has_password: endpoint.password.is_some(),
    };
    endpoints.iter().zip(names).map(of).collect()
}

/// Sets the master's address from Sentinel for each server.
pub(crate) fn name_masters<'a>(
    observation: &mut Observation,
    masters: impl Iterator<Item = Option<&'a str>>,
) {
    for (access, master) in observation.redis_access.iter_mut().zip(masters) {
        access.master = master.map(str::to_owned);
    }
}

/// Returns the processes of all shards that could be read, even if others are unreachable.
pub(crate) fn processes(observation: &Observation) -> Option<SidekiqObservation> {
    let seen: Vec<&SidekiqObservation> =
        observation.each_jobs().filter_map(|(_, jobs)| jobs.known()).collect();
    let processes = seen.iter().flat_map(|jobs| jobs.processes.iter().cloned());
    (!seen.is_empty()).then(|| SidekiqObservation {
        processes: processes.collect(),
        ..SidekiqObservation::default()
    })
}

/// Both samples of a shard.
pub(crate) type ShardSamples = Result<(RedisSnapshot, RedisSnapshot), Missing>;

/// Returns the jobs of each of several shards.
fn shards(names: &[String], samples: &[ShardSamples]) -> Vec<ShardJobs> {
    let of = |(name, both): (&String, &ShardSamples)| {
        let jobs = match both {
            Ok((first, second)) => named(jobs::jobs(first, second), name),
            Err(missing) => Fact::Unknown(missing.clone()),
        };
        ShardJobs { name: name.clone(), jobs }
    };
    if samples.len() > 1 { names.iter().zip(samples).map(of).collect() } else { Vec::new() }
}

/// Adds the shard's name to the description of missing facts.
fn named(mut jobs: Fact<SidekiqObservation>, shard: &str) -> Fact<SidekiqObservation> {
    let name = |missing: &mut Missing| missing.what = format!("{} of Redis {shard}", missing.what);
    match &mut jobs {
        Fact::Known(jobs) => jobs.unread.iter_mut().for_each(name),
        Fact::Unknown(missing) => name(missing),
        Fact::NotAsked => {}
    }
    jobs
}

/// Returns the jobs of all shards, or unknown if one is missing, because partial data would be
/// misleading.
fn all_jobs(samples: Vec<ShardSamples>) -> Fact<SidekiqObservation> {
    let samples: Vec<_> = match samples.into_iter().collect() {
        Ok(samples) => samples,
        Err(missing) => return Fact::Unknown(missing),
    };
    let (firsts, seconds): (Vec<_>, Vec<_>) = samples.into_iter().unzip();
    match (join(firsts), join(seconds)) {
        (Some(first), Some(second)) => jobs::jobs(&first, &second),
        _ => Fact::NotAsked,
    }
}

/// Returns the limits that truncated one of the samples.
fn cut(samples: &[ShardSamples]) -> Vec<String> {
    let seen = samples.iter().flatten();
    let limits = seen.flat_map(|(first, second)| first.cut.iter().chain(&second.cut));
    limits.cloned().collect::<BTreeSet<_>>().into_iter().collect()
}
