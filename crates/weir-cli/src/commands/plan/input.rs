//! Derives the inputs of a plan from options and observations.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{anyhow, bail};
use weir_advisor::observation::{Missing, Observation, SidekiqObservation};
use weir_advisor::plan::{
    DemandSource, Demands, LeftOut, PlanInput, ProcessMemory, QueueDemand, RESERVED_CONNECTIONS,
    WebDemand, demands, demands_held_up, held_up, observed_redis_policy, postgres_share,
};
use weir_base::hint;

use super::arguments::PlanArguments;
use weir_config::units::format_size;

/// The values in Mastodon's guides.
const MAX_CONNECTIONS: u32 = 200;
/// The demand of an instance with a few hundred users.
const WEB_REQUESTS: f64 = 10.0;
const WEB_SECONDS: f64 = 0.1;
/// Mastodon's default.
const STREAMING: (u32, u32) = (1, 10);

/// Returns the inputs of a plan, and the names that get no process.
pub(super) fn plan_input(
    arguments: &PlanArguments,
    observation: &Observation,
) -> anyhow::Result<(PlanInput, Vec<LeftOut>)> {
    let Demands { queues, left_out } = queues(arguments, observation)?;
    let machine = weir_observe::this_machine();
    let unknown = |name: &str| anyhow!("cannot determine this machine's {name}; give --{name}");
    let cores = arguments.cores.or(machine.map(|(cores, _)| cores));
    let memory = arguments.memory.or(machine.map(|(_, memory)| memory));
    let memory_bytes = memory.ok_or_else(|| unknown("memory"))?;
    let settings = observation.postgres.known().and_then(|it| it.settings.known());
    let ceiling = arguments.max_connections.or(settings.map(|settings| settings.max_connections));
    let away = observation.postgres.missing();
    let away = away.or(observation.postgres.known().and_then(|it| it.settings.missing()));
    if let (None, Some(missing)) = (ceiling, away) {
        bail!("{} is unknown: {}; or give --max-connections", missing.what, missing.reason);
    }
    let input = PlanInput {
        cores: cores.ok_or_else(|| unknown("cores"))?,
        memory_bytes,
        postgres_memory_bytes: arguments
            .postgres_memory
            .unwrap_or_else(|| postgres_share(memory_bytes)),
        redis_memory_bytes: arguments.redis_memory.unwrap_or(memory_bytes / 16),
        storage: arguments.storage.into(),
        max_connections: ceiling.unwrap_or(MAX_CONNECTIONS),
        reserve: arguments.reserve,
        reserved_connections: settings
            .map_or(RESERVED_CONNECTIONS, |it| it.superuser_reserved_connections),
        pooler_connections: pooler_connections(arguments, observation)?,
        web: WebDemand {
            requests_per_second: arguments.web_requests.unwrap_or(WEB_REQUESTS),
            service_seconds: arguments.web_seconds.unwrap_or(WEB_SECONDS),
            threads: arguments.web_threads,
            processes_now: 0,
        },
        streaming: arguments.streaming.as_ref().map_or(STREAMING, |it| (it.processes, it.pool)),
        queues,
        process_memory: ProcessMemory::default(),
        redis_policy: observed_redis_policy(observation),
        lacks_pool_connections: observation
            .jobs
            .known()
            .is_some_and(SidekiqObservation::lacks_pool_connections),
    };
    Ok((input, left_out))
}

/// Returns the pooler's connections, as given or observed; None: no pooler is known.
fn pooler_connections(
    arguments: &PlanArguments,
    observation: &Observation,
) -> anyhow::Result<Option<u32>> {
    if arguments.pgbouncer.is_some() {
        return Ok(arguments.pgbouncer.filter(|connections| *connections > 0));
    }
    if let Some(Missing { what, reason, .. }) = observation.pgbouncer.missing() {
        bail!("{what} is unknown: {reason}; or give --pgbouncer");
    }
    Ok(observation.pooler.as_ref().and_then(|pooler| pooler.connections))
}

/// Returns the values that were neither given nor observed, as options.
pub(super) fn assumed(
    arguments: &PlanArguments,
    observation: &Observation,
    input: &PlanInput,
) -> Vec<String> {
    let settings = observation.postgres.known().and_then(|it| it.settings.known());
    let is_ceiling_known = arguments.max_connections.is_some() || settings.is_some();
    let (processes, pool) = input.streaming;
    let size = |name: &str, bytes: u64| format!("--{name} {}", format_size(bytes));
    let options = [
        (!is_ceiling_known, format!("--max-connections {}", input.max_connections)),
        (arguments.web_requests.is_none(), format!("--web-requests {WEB_REQUESTS}")),
        (arguments.web_seconds.is_none(), format!("--web-seconds {WEB_SECONDS}")),
        (arguments.streaming.is_none(), format!("--streaming {processes}x{pool}")),
        (arguments.postgres_memory.is_none(), size("postgres-memory", input.postgres_memory_bytes)),
        (arguments.redis_memory.is_none(), size("redis-memory", input.redis_memory_bytes)),
    ];
    let options = options.into_iter().filter_map(|(is_assumed, it)| is_assumed.then_some(it));
    // If jobs wait for something else, the number of threads is kept: nothing is assumed.
    let is_assumed =
        |it: &&QueueDemand| !it.known.knows_seconds() && it.known != DemandSource::HeldUp;
    let queues = input.queues.iter().filter(is_assumed).map(|queue| {
        let rate = (queue.arrivals_per_second * 1_000.0).round() / 1_000.0;
        format!("--queue {}={rate},{}", queue.name, queue.service_seconds)
    });
    options.chain(queues).collect()
}

/// Returns the given queues, then the observed ones, by demand.
fn queues(arguments: &PlanArguments, observation: &Observation) -> anyhow::Result<Demands> {
    if let Some(missing) = observation.jobs.missing() {
        bail!("{} is not known: {}", missing.what, missing.reason);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = arguments.queues.iter().find(|queue| !names.insert(&queue.name)) {
        bail!("--queue {} is given twice; give each queue once", twice.name);
    }
    let is_given = |name: &str| arguments.queues.iter().any(|queue| queue.name == name);
    let nobody = SidekiqObservation::default();
    let jobs = observation.jobs.known().unwrap_or(&nobody);
    let demands = if held_up(observation).is_empty() { demands } else { demands_held_up };
    let mut all = demands(jobs, &arguments.pushes);
    all.queues.retain(|queue| !is_given(&queue.name));
    all.left_out.retain(|it| !is_given(&it.name));
    all.queues.splice(..0, arguments.queues.iter().cloned());
    if all.queues.is_empty() {
        bail!(
            "no queues to plan for: give Sidekiq's Redis with --redis, or queues with --queue, for example --queue push=20,0.5"
        );
    }
    for (name, wait) in &arguments.targets {
        set_target(&mut all.queues, name, *wait)?;
    }
    Ok(all)
}

fn set_target(queues: &mut [QueueDemand], name: &str, wait: Duration) -> anyhow::Result<()> {
    if let Some(queue) = queues.iter_mut().find(|queue| queue.name == name) {
        queue.target_seconds = Some(wait.as_secs_f64());
        return Ok(());
    }
    let names: Vec<&str> = queues.iter().map(|queue| queue.name.as_str()).collect();
    match hint::closest(name, names.iter().copied()) {
        Some(meant) => bail!("--target {name}: there is no such queue; did you mean {meant:?}?"),
        None => bail!("--target {name}: there is no such queue; there are {}", names.join(", ")),
    }
}
