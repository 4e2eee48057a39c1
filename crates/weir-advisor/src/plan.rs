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
mod input;
mod isolation;
mod judge;
mod known;
mod layout;
mod overruled;
mod planned_setting;
mod postgres;
mod queue_demand;
mod redis;
mod redis_policy;
mod remedies;
mod rounding;
mod split;
mod targets;
mod unseen_processes;
mod web;

use serde::Serialize;

pub use self::claim::{Claim, ClaimOutcome, Proof};
pub use self::demand::{Demands, LeftOut, demand, demands, demands_held_up};
pub use self::difference::{difference, queue_words};
pub use self::held_up::held_up;
pub use self::input::{PlanInput, ProcessMemory};
pub use self::judge::judge;
pub(crate) use self::judge::unserved;
pub use self::known::DemandSource;
pub use self::layout::{Gap, ProcessLayout, ServiceLayout, WorkerLayout};
pub use self::overruled::{Overruled, overruled};
pub use self::planned_setting::PlannedSetting;
pub use self::postgres::{
    DatabaseWorkload, PostgresMachine, Storage, effective_cache_size, postgres_settings,
    postgres_share, shared_buffers, size as postgres_size, work_mem,
};
pub use self::queue_demand::QueueDemand;
pub use self::redis::{RedisPolicy, redis_container_script, redis_script, redis_settings};
pub use self::redis_policy::observed_redis_policy;
use self::rounding::ceiling;
pub use self::web::{WebDemand, threads_enough};

/// Connections that Postgres reserves for superusers by default.
pub const RESERVED_CONNECTIONS: u32 = 3;

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

#[cfg(test)]
mod tests;
