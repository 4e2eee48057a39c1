//! Something is clearly wrong, and no other finding explains it: says what, since when, what changed
//! about then, and where to look.
//!
//! - `harm`: what is wrong, with its figures;
//! - `changes`: what changed about when it began;
//! - `place`: what its jobs most likely wait for, and the command that shows it.
//!
//! It names no culprit: each sentence states what was measured, and the command shows the cause.

mod changes;
mod harm;
mod place;
#[cfg(test)]
mod tests;

use self::harm::Harm;
use crate::finding::{Finding, Severity};
use crate::observation::{Observation, Sidekiq};
use crate::rules::{
    busy_pooler, connection_limit, expiring_queue, failing_class, failing_jobs, ghost_process,
    idle_cores, large_payloads, lock_waits, no_process, no_sidekiq, quiet_process,
    read_only_database, redis_clients, redis_cpu, redis_refuses, redis_replica, redis_round_trip,
    sequential_scans, slots_exhausted, small_pool, starving_queue, stuck_threads, temporary_files,
    threads_hurt, unreachable,
};
use crate::rules::{dead_rows, redis_memory};

pub(crate) const NAME: &str = "unexplained";

/// The rules whose warnings explain late or failing jobs. A setting that may cause harm one day does not
/// explain the harm of today.
const CAUSES: [&str; 28] = [
    unreachable::NAME,
    slots_exhausted::NAME,
    redis_refuses::NAME,
    redis_replica::NAME,
    redis_memory::NAME,
    redis_clients::NAME,
    redis_cpu::NAME,
    redis_round_trip::NAME,
    no_sidekiq::NAME,
    no_process::NAME,
    expiring_queue::NAME,
    read_only_database::NAME,
    lock_waits::NAME,
    failing_jobs::NAME,
    failing_class::NAME,
    large_payloads::NAME,
    connection_limit::NAME,
    busy_pooler::NAME,
    small_pool::NAME,
    threads_hurt::NAME,
    sequential_scans::NAME,
    dead_rows::NAME,
    temporary_files::NAME,
    idle_cores::NAME,
    quiet_process::NAME,
    stuck_threads::NAME,
    starving_queue::NAME,
    ghost_process::NAME,
];

/// A rule that runs on what the others have found. It has nothing to find in an observation alone.
pub(crate) const fn nothing(_: &Observation) -> Vec<Finding> {
    Vec::new()
}

/// Returns the finding for one Sidekiq, given all findings of the other rules.
pub(crate) fn check(
    observation: &Observation,
    sidekiq: &Sidekiq<'_>,
    findings: &[Finding],
) -> Option<Finding> {
    let own: &Observation = &sidekiq.observation;
    let jobs = own.jobs.known()?;
    let harm = Harm::worst(own, jobs)?;
    let severity = harm.severity();
    let explains = |finding: &Finding| {
        let is_of_it = finding.shard.is_none() || finding.shard.as_deref() == sidekiq.name;
        // A notice may explain what is worth no more than a notice, but not that Redis has room.
        let says_room = finding.rule == redis_cpu::NAME && finding.severity < Severity::Warning;
        let is_cause = CAUSES.contains(&&*finding.rule) && !says_room;
        finding.severity >= severity && is_of_it && is_cause
    };
    if findings.iter().any(explains) {
        return None;
    }
    let since = harm.since(jobs);
    let place = place::of(observation, jobs, &harm);
    let changes = changes::about(jobs, &harm, since);
    let consequence = format!("No other finding explains it. {} {}", changes.join(" "), place.text);
    let finding = Finding::new(NAME, severity, harm.subject(), harm.evidence(jobs, since));
    let finding = finding.leads_to(consequence.replace("  ", " "));
    Some(finding.next_if(place.command))
}
