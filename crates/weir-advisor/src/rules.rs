//! What can be wrong: one file for each.
//!
//! A rule is a pure function from an [`Observation`] to what it found. It is silent about facts that
//! are not known; that they are not is the finding of `unseen` alone. (Whether pools fit behind a pooler
//! that nobody has measured is asked by `over_commit` only where it matters.)

mod backlog;
mod backlog_sample;
mod cache_hits;
mod connection_slots;
mod dead_flood;
mod duplicate_scheduler;
mod ghost_process;
mod idle_connections;
mod idle_cores;
mod idle_in_transaction;
mod inside_outside;
mod lock_waits;
mod no_process;
mod over_commit;
mod overdue_jobs;
mod own_queue;
mod pending_restart;
mod quiet_process;
mod redis_eviction;
mod redis_fork;
mod redis_memory;
mod redis_persistence;
mod redis_shared;
mod redis_slow_log;
mod retry_flood;
mod slots_exhausted;
mod small_pool;
mod starving_queue;
mod stuck_threads;
mod threads_hurt;
mod unseen;
mod unserved_queue;
mod untuned_database;
mod upgrade_guard;
mod work_memory;

use crate::finding::Finding;
use crate::observation::Observation;

/// One thing that can be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// As findings name it.
    pub name: &'static str,
    /// What of it there is.
    pub check: fn(&Observation) -> Vec<Finding>,
}

/// All of them, causes before what they cause: of two findings that are equally bad, the verdict
/// names the one that stands first here.
pub const RULES: [Rule; 35] = [
    rule(slots_exhausted::NAME, slots_exhausted::check),
    rule(no_process::NAME, no_process::check),
    rule(redis_eviction::NAME, redis_eviction::check),
    rule(redis_persistence::NAME, redis_persistence::check),
    rule(redis_memory::NAME, redis_memory::check),
    // With an untuned database nothing else helps: neither threads nor processes.
    rule(untuned_database::NAME, untuned_database::check),
    rule(lock_waits::NAME, lock_waits::check),
    rule(unserved_queue::NAME, unserved_queue::check),
    rule(duplicate_scheduler::NAME, duplicate_scheduler::check),
    rule(overdue_jobs::NAME, overdue_jobs::check),
    rule(connection_slots::NAME, connection_slots::check),
    rule(idle_connections::NAME, idle_connections::check),
    rule(idle_in_transaction::NAME, idle_in_transaction::check),
    rule(over_commit::NAME, over_commit::check),
    rule(small_pool::NAME, small_pool::check),
    rule(threads_hurt::NAME, threads_hurt::check),
    rule(idle_cores::NAME, idle_cores::check),
    rule(quiet_process::NAME, quiet_process::check),
    rule(stuck_threads::NAME, stuck_threads::check),
    rule(starving_queue::NAME, starving_queue::check),
    rule(backlog::NAME, backlog::check),
    rule(backlog_sample::NAME, backlog_sample::check),
    rule(own_queue::NAME, own_queue::check),
    rule(inside_outside::NAME, inside_outside::check),
    rule(retry_flood::NAME, retry_flood::check),
    rule(dead_flood::NAME, dead_flood::check),
    rule(ghost_process::NAME, ghost_process::check),
    rule(upgrade_guard::NAME, upgrade_guard::check),
    rule(cache_hits::NAME, cache_hits::check),
    rule(work_memory::NAME, work_memory::check),
    rule(pending_restart::NAME, pending_restart::check),
    rule(redis_fork::NAME, redis_fork::check),
    rule(redis_slow_log::NAME, redis_slow_log::check),
    rule(redis_shared::NAME, redis_shared::check),
    rule(unseen::NAME, unseen::check),
];

const fn rule(name: &'static str, check: fn(&Observation) -> Vec<Finding>) -> Rule {
    Rule { name, check }
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
