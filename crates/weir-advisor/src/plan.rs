//! From a machine, queues and a database's limit to processes, pools and settings; and a judgement
//! of a layout that somebody else has made.
//!
//! One judge for both: what [`plan`] makes is put before [`judge`], and a plan that breaks a rule is
//! not given out.

mod claim;
mod cores;
mod current_threads;
mod demand;
mod difference;
mod held_up;
mod importance;
mod judge;
mod known;
mod layout;
mod overruled;
mod postgres;
mod redis;
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
pub use self::redis::{redis_script, redis_settings};
pub use self::web::{WebDemand, threads_enough};

/// What Postgres keeps for superusers, as it ships.
pub const RESERVED_CONNECTIONS: u32 = 3;

/// What there is, and what is wanted of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanInput {
    /// Cores of the machine.
    pub cores: u32,
    /// Its memory.
    pub memory_bytes: u64,
    /// Of that, for Postgres; 0 if it runs elsewhere.
    pub postgres_memory_bytes: u64,
    /// Of that, for Redis; 0 if it runs elsewhere.
    pub redis_memory_bytes: u64,
    /// The database's disk.
    pub storage: Storage,
    /// The database's ceiling.
    pub max_connections: u32,
    /// Connections that nobody plans with: psql, a deploy's migrations, monitoring.
    pub reserve: u32,
    /// Connections that only superusers get, or a role.
    pub reserved_connections: u32,
    /// Connections that a pooler in between opens at most; none: nothing stands between.
    pub pooler_connections: Option<u32>,
    /// Requests of the application.
    pub web: WebDemand,
    /// Streaming processes, with the pool of each.
    pub streaming: (u32, u32),
    /// The queues, in the order of their importance.
    pub queues: Vec<QueueDemand>,
    /// What processes need, measured or as a rule.
    pub process_memory: ProcessMemory,
}

/// What comes into a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueDemand {
    /// Its name.
    pub name: String,
    /// Jobs per second.
    pub arrivals_per_second: f64,
    /// Seconds of a thread for one job.
    pub service_seconds: f64,
    /// Seconds that 19 of 20 jobs may wait, also while every thread is busy.
    pub target_seconds: Option<f64>,
    /// What of this somebody has said or seen.
    pub known: DemandSource,
    /// Its share of the threads that run now, where nothing tells how many it takes.
    pub threads_now: u32,
    /// Its place among the queues of the processes that run: what comes first there matters most.
    pub importance: u32,
}

/// Memory of processes.
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
    /// What Mastodon's processes settle at; measured ones are better.
    fn default() -> Self {
        Self { ruby_bytes: 300 << 20, thread_bytes: 8 << 20, streaming_bytes: 150 << 20 }
    }
}

/// What to run, with which settings, and why that holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Processes and pools.
    pub layout: ProcessLayout,
    /// For `postgresql.conf`; none if Postgres runs elsewhere.
    pub postgres: Vec<PlannedSetting>,
    /// For Redis, to be set while it runs; none if Redis runs elsewhere.
    pub redis: Vec<PlannedSetting>,
    /// Each rule with the figures that show it.
    pub proofs: Vec<Proof>,
}

/// A line of a file of settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedSetting {
    /// Its name.
    pub name: &'static str,
    /// As the file has it.
    pub value: String,
    /// Where it comes from.
    pub reason: &'static str,
    /// Whether it takes a restart.
    pub restart: bool,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Impossible {
    /// The rules that the best layout does not keep.
    pub broken: Vec<Proof>,
    /// What would make room, a line each.
    #[serde(rename = "ways_out")]
    pub remedies: Vec<String>,
}

/// The layout for `wanted`, with proof.
///
/// # Errors
/// When the machine or the database is too small: with the rules that can't be kept, figures and ways out.
pub fn plan(wanted: &PlanInput) -> Result<Plan, Impossible> {
    let mut layout = split::layout(wanted);
    let mut proofs = proofs(wanted, &layout);
    if !broken(&proofs).is_empty() {
        // Threads that run now, and that nothing is known to need, are in no plan's way.
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
        redis: if here(wanted.redis_memory_bytes) { redis_settings() } else { Vec::new() },
        proofs,
    })
}

fn proofs(wanted: &PlanInput, layout: &ProcessLayout) -> Vec<Proof> {
    let queues: Vec<&str> = wanted.queues.iter().map(|queue| queue.name.as_str()).collect();
    let mut proofs = judge(layout, &queues);
    proofs.push(cores::enough(wanted, layout));
    proofs.push(targets::has_enough_threads(wanted, layout));
    proofs.extend(targets::proof(wanted, layout));
    proofs
}

/// Those for which a layout is not given out. What comes need not be known for one; all else is.
fn broken(proofs: &[Proof]) -> Vec<Proof> {
    let may_be_unknown = |proof: &Proof| matches!(proof.claim, Claim::KeepsUp | Claim::TargetsKept);
    let is_kept = |proof: &Proof| match proof.outcome {
        ClaimOutcome::Holds => true,
        ClaimOutcome::Broken => false,
        ClaimOutcome::Unknown => may_be_unknown(proof),
    };
    proofs.iter().filter(|proof| !is_kept(proof)).cloned().collect()
}

/// The whole number at or above `number`, within what counts can be.
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
