//! Computes processes, pools and settings from a machine, its queues and the database's limits, and
//! checks layouts that others have made.
//!
//! [`plan`] checks its own result with [`judge`] and does not return a plan that breaks a rule.

mod claim;
mod cores;
mod cpu;
mod current_threads;
mod demand;
mod difference;
mod held_up;
mod importance;
mod isolation;
mod judge;
mod known;
mod layout;
mod overruled;
mod postgres;
mod redis;
mod redis_policy;
mod remedies;
mod split;
mod targets;
mod web;

use serde::Serialize;

pub use self::claim::{Claim, ClaimOutcome, Proof};
pub use self::demand::{Demands, LeftOut, demand, demands, demands_held_up};
pub use self::difference::{difference, queue_words};
pub use self::held_up::held_up;
pub use self::judge::judge;
pub(crate) use self::judge::unserved;
pub use self::known::DemandSource;
pub use self::layout::{Gap, ProcessLayout, ServiceLayout, WorkerLayout};
pub use self::overruled::{Overruled, overruled};
pub use self::postgres::{
    DatabaseWorkload, PostgresMachine, Storage, effective_cache_size, postgres_settings,
    postgres_share, shared_buffers, size as postgres_size, work_mem,
};
pub use self::redis::{RedisPolicy, redis_script, redis_settings};
pub use self::redis_policy::observed_redis_policy;
pub use self::web::{WebDemand, threads_enough};

/// Connections that Postgres reserves for superusers by default.
pub const RESERVED_CONNECTIONS: u32 = 3;

/// The machine, the expected load and the limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanInput {
    /// CPU cores of the machine.
    pub cores: u32,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Memory of the machine for Postgres; 0 if it runs elsewhere.
    pub postgres_memory_bytes: u64,
    /// Memory of the machine for Redis; 0 if it runs elsewhere.
    pub redis_memory_bytes: u64,
    /// The type of the database's disk.
    pub storage: Storage,
    /// The database's `max_connections`.
    pub max_connections: u32,
    /// Connections for psql, migrations and monitoring, which are not planned.
    pub reserve: u32,
    /// Connections reserved for superusers or for a role.
    pub reserved_connections: u32,
    /// The most connections that a pooler opens to the database, or `None` without a pooler.
    pub pooler_connections: Option<u32>,
    /// The HTTP load.
    pub web: WebDemand,
    /// Number of streaming processes, and the pool size of each.
    pub streaming: (u32, u32),
    /// The queues, most important first.
    pub queues: Vec<QueueDemand>,
    /// Memory per process, measured or default.
    pub process_memory: ProcessMemory,
    /// What to do with the `maxmemory-policy` of the Redis.
    pub redis_policy: RedisPolicy,
    /// Jobs fail because the pool of their process has too few connections: the application may not
    /// read the size of the pool that the plan sets.
    pub lacks_pool_connections: bool,
}

/// The load of a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueDemand {
    /// Its name.
    pub name: String,
    /// Arrival rate.
    pub arrivals_per_second: f64,
    /// Mean duration of a job in seconds.
    pub service_seconds: f64,
    /// Mean CPU time of a job in seconds, if known. Otherwise jobs are assumed to wait mostly.
    pub cpu_seconds: Option<f64>,
    /// 95 % of jobs are to wait less than this many seconds, even while every thread is busy.
    pub target_seconds: Option<f64>,
    /// Which of these figures were configured or measured.
    pub known: DemandSource,
    /// Its share of the present threads, for queues with unknown load.
    pub threads_now: u32,
    /// Its position among the queues of the running processes; the first matters most.
    pub importance: u32,
    /// Number of samples in which jobs in progress were searched for; 0 if it was not observed.
    pub samples: u32,
    /// How long the oldest of its jobs in progress has been running, in seconds; 0 if there was none, or
    /// if something delays jobs.
    pub oldest_seconds: f64,
    /// The threads that serve it now serve no other queue.
    pub has_own_process: bool,
}

/// Memory per process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessMemory {
    /// A Ruby process without its threads.
    pub ruby_bytes: u64,
    /// Each of its threads.
    pub thread_bytes: u64,
    /// A streaming process.
    pub streaming_bytes: u64,
}

impl Default for ProcessMemory {
    /// Typical values of Mastodon's processes. Measured values are better.
    fn default() -> Self {
        Self { ruby_bytes: 300 << 20, thread_bytes: 8 << 20, streaming_bytes: 150 << 20 }
    }
}

/// What to run, with which settings, and the evidence that it suffices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Processes and pools.
    pub layout: ProcessLayout,
    /// Settings for `postgresql.conf`; empty if Postgres runs elsewhere.
    pub postgres: Vec<PlannedSetting>,
    /// Settings for the running Redis; empty if Redis runs elsewhere.
    pub redis: Vec<PlannedSetting>,
    /// Each rule with its figures.
    pub proofs: Vec<Proof>,
}

/// A line of a settings file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedSetting {
    /// Its name.
    pub name: &'static str,
    /// The value as written in the file.
    pub value: String,
    /// Why this value was chosen.
    pub reason: &'static str,
    /// Whether it requires a restart.
    pub restart: bool,
}

/// Why no plan is possible.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Impossible {
    /// The rules that the best layout breaks.
    pub broken: Vec<Proof>,
    /// Changes that would make a plan possible, one per line.
    #[serde(rename = "ways_out")]
    pub remedies: Vec<String>,
}

/// Computes the layout for `wanted`, with evidence for each rule.
///
/// # Errors
/// Returns [`Impossible`] with the broken rules, their figures and remedies if the machine or the
/// database is too small.
pub fn plan(wanted: &PlanInput) -> Result<Plan, Impossible> {
    let mut layout = split::layout(wanted);
    let mut proofs = proofs(wanted, &layout);
    if !broken(&proofs).is_empty() {
        // Present threads without a known need must not make a plan impossible.
        layout = split::layout(&current_threads::forgotten(wanted));
        proofs = self::proofs(wanted, &layout);
    }
    let broken = broken(&proofs);
    if !broken.is_empty() {
        let remedies = remedies::remedies(wanted, &layout, &broken);
        return Err(Impossible { broken, remedies });
    }
    let machine = PostgresMachine {
        memory_bytes: wanted.postgres_memory_bytes,
        cores: wanted.cores,
        connections: wanted.max_connections,
        workload: DatabaseWorkload::Oltp,
        storage: wanted.storage,
    };
    let here = |memory: u64| memory > 0;
    Ok(Plan {
        layout,
        postgres: if here(machine.memory_bytes) { postgres_settings(&machine) } else { Vec::new() },
        redis: match here(wanted.redis_memory_bytes) {
            true => redis_settings(wanted.redis_policy),
            false => Vec::new(),
        },
        proofs,
    })
}

fn proofs(wanted: &PlanInput, layout: &ProcessLayout) -> Vec<Proof> {
    let queues: Vec<&str> = wanted.queues.iter().map(|queue| queue.name.as_str()).collect();
    let mut proofs = judge(layout, &queues);
    if wanted.lacks_pool_connections {
        proofs.iter_mut().for_each(doubt_pools);
    }
    proofs.extend(isolation::proof(wanted, layout));
    proofs.push(cores::enough(wanted, layout));
    proofs.push(targets::has_enough_threads(wanted, layout));
    proofs.extend(targets::proof(wanted, layout));
    proofs
}

/// Marks the rule as unknown that each thread has a connection: jobs show that pools are not as configured.
fn doubt_pools(proof: &mut Proof) {
    if proof.claim != Claim::PoolsCoverThreads || !proof.holds() {
        return;
    }
    proof.outcome = ClaimOutcome::Unknown;
    proof.figures.push_str(
        " if the application reads DB_POOL: unknown, because jobs fail with \
         ActiveRecord::ConnectionTimeoutError; let pool in config/database.yml read it, or be the number \
         of threads",
    );
}

/// Returns the broken rules that prevent a plan. Claims about the load and about the size of pools may
/// be unknown; all others must hold.
fn broken(proofs: &[Proof]) -> Vec<Proof> {
    let may_be_unknown = |proof: &Proof| {
        matches!(proof.claim, Claim::KeepsUp | Claim::TargetsKept | Claim::PoolsCoverThreads)
    };
    let is_kept = |proof: &Proof| match proof.outcome {
        ClaimOutcome::Holds => true,
        ClaimOutcome::Broken => false,
        ClaimOutcome::Unknown => may_be_unknown(proof),
    };
    proofs.iter().filter(|proof| !is_kept(proof)).cloned().collect()
}

/// Rounds up, within the range of counts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what 32 bits hold; no number at all counts as 0"
)]
fn ceiling(number: f64) -> u32 {
    if number.is_nan() { 0 } else { number.ceil().clamp(0.0, f64::from(u32::MAX)) as u32 }
}

#[cfg(test)]
mod tests;
