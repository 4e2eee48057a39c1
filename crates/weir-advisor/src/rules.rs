//! The rules, one file per problem.
//!
//! A rule is a pure function from an [`Observation`] to findings. Rules ignore unknown facts; only
//! `unseen` reports them. (`over_commit` also reports when the connections behind a pooler are
//! unknown, but only where it matters.)

mod absent_server;
mod backlog;
mod backlog_sample;
mod busy_pooler;
mod cache_hits;
mod connection_limit;
mod connection_slots;
mod cpu_limit;
mod dead_flood;
mod dead_rows;
mod duplicate_scheduler;
mod expiring_queue;
mod failing_class;
mod failing_jobs;
mod far_scheduled;
mod ghost_process;
mod growing_process;
mod host_clock;
mod idle_connections;
mod idle_cores;
mod idle_in_transaction;
mod idle_workers;
mod inside_outside;
mod large_payloads;
mod lock_waits;
mod no_process;
mod no_sidekiq;
mod over_commit;
mod overdue_jobs;
mod own_part;
mod pending_restart;
mod quiet_process;
mod read_only_database;
mod redis_clients;
mod redis_cpu;
mod redis_durability;
mod redis_eviction;
mod redis_fork;
mod redis_memory;
mod redis_persistence;
mod redis_refuses;
mod redis_replica;
mod redis_round_trip;
mod redis_shared;
mod redis_slow_log;
mod replication_slot;
pub(crate) mod retry_flood;
mod sequential_scans;
mod shared_queue;
mod slots_exhausted;
mod slow_commands;
mod small_pool;
pub(crate) mod starving_queue;
mod stuck_threads;
mod temporary_files;
mod threads_hurt;
mod unexplained;
mod unreachable;
mod unseen;
mod unserved_queue;
mod untuned_database;
mod upgrade_guard;
mod waiting_jobs;
mod work_memory;
mod wraparound;

pub(crate) use self::ghost_process::{crash_loop_names, has_replaced};
pub(crate) use self::lock_waits::may_be_of_job;
use crate::budget::Budget;
use crate::finding::Finding;
use crate::guard::{self, Guard};
use crate::observation::{Observation, Sidekiq};
use crate::placeholders;

/// Reports whether a rule is about the memory of the database, and not about its connections.
pub(crate) fn is_about_memory(rule: &str) -> bool {
    [untuned_database::NAME, cache_hits::NAME, work_memory::NAME].contains(&rule)
}

/// A check for one kind of problem.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, as used in findings.
    pub name: &'static str,
    /// Returns the findings.
    pub check: fn(&Observation) -> Vec<Finding>,
    /// What it is run on.
    pub asked_of: RuleScope,
}

/// What a rule is run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleScope {
    /// The whole observation.
    Everything,
    /// Each Redis separately: processes of one shard do not serve queues of another, even if the
    /// names are equal.
    EachSidekiq,
    /// What all others have found, for each Redis separately.
    Remainder,
}

/// Runs all rules and returns the findings in the rules' order.
pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let sidekiqs = observation.sidekiqs();
    let guard = |it: &Sidekiq<'_>| Guard::of(&it.observation);
    let mut guards: Vec<Guard> = sidekiqs.iter().map(guard).collect();
    let mut budget = Budget::of(observation);
    let mut findings = Vec::new();
    for rule in RULES {
        match rule.asked_of {
            RuleScope::Remainder => {
                let checked = sidekiqs.iter().filter_map(|it| {
                    Some(of_shard(unexplained::check(observation, it, &findings)?, it))
                });
                // Nothing that explains present harm was found: what remains is about settings.
                let checked: Vec<_> = checked.collect();
                findings.splice(0..0, checked);
            }
            // These rules must not change which process serves which queues.
            RuleScope::Everything => {
                let found = (rule.check)(observation).into_iter();
                findings.extend(found.map(|it| guard::without_queues(budget.pass(it))));
            }
            RuleScope::EachSidekiq => {
                for (sidekiq, guard) in sidekiqs.iter().zip(&mut guards) {
                    findings.extend(check_one(rule, sidekiq, guard, &mut budget));
                }
            }
        }
    }
    findings.into_iter().map(placeholders::without).collect()
}

fn check_one(
    rule: &Rule,
    sidekiq: &Sidekiq<'_>,
    guard: &mut Guard,
    budget: &mut Budget,
) -> Vec<Finding> {
    let findings = (rule.check)(&sidekiq.observation).into_iter();
    let findings = findings.map(|it| guard.pass(budget.pass(it)));
    findings.map(|it| of_shard(it, sidekiq)).collect()
}

fn of_shard(finding: Finding, sidekiq: &Sidekiq<'_>) -> Finding {
    match sidekiq.name {
        Some(name) => finding.of_shard(name),
        None => finding,
    }
}

/// All rules, causes before their effects. Among findings of equal severity, the summary names the
/// first in this order.
pub const RULES: &[Rule] = &[
    // Unreachable sources come first: nothing else is known about them.
    rule(unreachable::NAME, unreachable::check),
    rule(slots_exhausted::NAME, slots_exhausted::check),
    rule(redis_refuses::NAME, redis_refuses::check),
    rule(redis_replica::NAME, redis_replica::check),
    of_sidekiq(no_sidekiq::NAME, no_sidekiq::check),
    of_sidekiq(no_process::NAME, no_process::check),
    rule(redis_eviction::NAME, redis_eviction::check),
    rule(redis_persistence::NAME, redis_persistence::check),
    rule(redis_durability::NAME, redis_durability::check),
    rule(redis_memory::NAME, redis_memory::check),
    // A full disk stops the database, whatever else is wrong.
    rule(replication_slot::NAME, replication_slot::check),
    rule(read_only_database::NAME, read_only_database::check),
    rule(wraparound::NAME, wraparound::check),
    rule(lock_waits::NAME, lock_waits::check),
    of_sidekiq(expiring_queue::NAME, expiring_queue::check),
    of_sidekiq(unserved_queue::NAME, unserved_queue::check),
    of_sidekiq(duplicate_scheduler::NAME, duplicate_scheduler::check),
    of_sidekiq(failing_jobs::NAME, failing_jobs::check),
    of_sidekiq(failing_class::NAME, failing_class::check),
    of_sidekiq(shared_queue::NAME, shared_queue::check),
    rule(redis_clients::NAME, redis_clients::check),
    of_sidekiq(redis_round_trip::NAME, redis_round_trip::check),
    // While the database reads from disk what it could cache, more threads or processes do not
    // help.
    rule(untuned_database::NAME, untuned_database::check),
    rule(sequential_scans::NAME, sequential_scans::check),
    rule(dead_rows::NAME, dead_rows::check),
    rule(temporary_files::NAME, temporary_files::check),
    of_sidekiq(overdue_jobs::NAME, overdue_jobs::check),
    of_sidekiq(far_scheduled::NAME, far_scheduled::check),
    rule(connection_slots::NAME, connection_slots::check),
    rule(connection_limit::NAME, connection_limit::check),
    rule(busy_pooler::NAME, busy_pooler::check),
    rule(idle_connections::NAME, idle_connections::check),
    rule(idle_in_transaction::NAME, idle_in_transaction::check),
    rule(over_commit::NAME, over_commit::check),
    rule(small_pool::NAME, small_pool::check),
    rule(threads_hurt::NAME, threads_hurt::check),
    rule(slow_commands::NAME, slow_commands::check),
    rule(redis_cpu::NAME, redis_cpu::check),
    of_sidekiq(large_payloads::NAME, large_payloads::check),
    of_sidekiq(growing_process::NAME, growing_process::check),
    rule(cpu_limit::NAME, cpu_limit::check),
    of_sidekiq(idle_cores::NAME, idle_cores::check),
    of_sidekiq(quiet_process::NAME, quiet_process::check),
    of_sidekiq(stuck_threads::NAME, stuck_threads::check),
    of_sidekiq(starving_queue::NAME, starving_queue::check),
    of_sidekiq(backlog::NAME, backlog::check),
    of_sidekiq(backlog_sample::NAME, backlog_sample::check),
    rule(own_part::NAME, own_part::check),
    rule(inside_outside::NAME, inside_outside::check),
    rule(idle_workers::NAME, idle_workers::check),
    of_sidekiq(retry_flood::NAME, retry_flood::check),
    of_sidekiq(dead_flood::NAME, dead_flood::check),
    of_sidekiq(ghost_process::NAME, ghost_process::check),
    of_sidekiq(host_clock::NAME, host_clock::check),
    of_sidekiq(upgrade_guard::NAME, upgrade_guard::check),
    rule(cache_hits::NAME, cache_hits::check),
    rule(work_memory::NAME, work_memory::check),
    rule(pending_restart::NAME, pending_restart::check),
    rule(redis_fork::NAME, redis_fork::check),
    rule(redis_slow_log::NAME, redis_slow_log::check),
    rule(redis_shared::NAME, redis_shared::check),
    Rule { name: unexplained::NAME, check: unexplained::nothing, asked_of: RuleScope::Remainder },
    rule(unseen::NAME, unseen::check),
];

const fn rule(name: &'static str, check: fn(&Observation) -> Vec<Finding>) -> Rule {
    Rule { name, check, asked_of: RuleScope::Everything }
}

const fn of_sidekiq(name: &'static str, check: fn(&Observation) -> Vec<Finding>) -> Rule {
    Rule { name, check, asked_of: RuleScope::EachSidekiq }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::healthy;

    #[test]
    fn no_rule_complains_of_a_healthy_system() {
        for rule in RULES {
            assert_eq!((rule.check)(&healthy::observation()), [], "{}", rule.name);
        }
    }

    #[test]
    fn names_are_unique_and_read_as_words() {
        let names: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
        let word = |letter: char| letter.is_ascii_lowercase() || letter == '-';
        assert!(names.iter().all(|name| name.chars().all(word)), "{names:?}");
    }
}
