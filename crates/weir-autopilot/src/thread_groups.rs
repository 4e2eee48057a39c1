//! The processes whose threads are the jobs in progress, for a system that has a number of threads for each process and
//! nothing else to limit. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Groups that a sentence names.
const NAMED_MAX: usize = 3;
/// Steps of a plan with more threads are further apart.
const STEPS_MAX: u32 = 1_000;

/// Processes with equally many threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadGroup {
    /// Its name for operators: `workers.sidekiq`, or `web-1:4711` for a process that Weir does not run.
    pub name: String,
    /// The command that changes its threads, up to their number.
    pub command: String,
    /// Processes.
    pub processes: u32,
    /// Threads of each, without a limit of the autopilot.
    pub threads: u32,
    /// Threads of each now.
    pub threads_now: u32,
}

/// Returns the threads of all groups without a limit: the static plan.
#[must_use]
pub fn plan(groups: &[ThreadGroup]) -> u32 {
    groups.iter().fold(0, |sum, group| sum.saturating_add(total(group, group.threads)))
}

/// Returns the threads of each group's processes for at most so many in all. Each keeps its part of the plan, and each
/// process has one at least.
#[must_use]
pub fn split(groups: &[ThreadGroup], threads: u32) -> Vec<u32> {
    let fits = |level: &u32| sum(groups, &at_level(groups, *level)) <= threads;
    let level = levels(groups).rev().find(fits).unwrap_or_default();
    at_level(groups, level)
}

/// Returns the numbers of threads of all groups together that can be carried out, ascending.
#[must_use]
pub fn steps(groups: &[ThreadGroup]) -> Vec<u32> {
    let mut steps: Vec<u32> =
        levels(groups).map(|level| sum(groups, &at_level(groups, level))).collect();
    steps.dedup();
    steps
}

/// Returns how a number of threads is carried out, for people.
#[must_use]
pub fn describe(groups: &[ThreadGroup], threads: u32, is_advice: bool) -> Option<String> {
    let each = split(groups, threads);
    let changed = groups.iter().zip(each).filter(|(group, each)| group.threads_now != *each);
    let changed: Vec<String> = changed
        .map(|(group, each)| {
            let ThreadGroup { name, command, processes, threads_now, .. } = group;
            let of = if *processes == 1 {
                String::new()
            } else {
                format!(" in each of {processes} processes")
            };
            let command = if is_advice { format!(" ({command} {each})") } else { String::new() };
            format!("{name} from {threads_now} to {each}{of}{command}")
        })
        .collect();
    let more = match changed.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = changed.get(..NAMED_MAX).unwrap_or(&changed).join(", ");
    (!changed.is_empty()).then(|| format!("threads of {named}{more}"))
}

/// A level is a share of the plan: up to the plan itself.
fn levels(groups: &[ThreadGroup]) -> impl DoubleEndedIterator<Item = u32> {
    (!groups.is_empty()).then_some(0..=plan(groups).min(STEPS_MAX)).into_iter().flatten()
}

fn at_level(groups: &[ThreadGroup], level: u32) -> Vec<u32> {
    let most = u64::from(plan(groups).clamp(1, STEPS_MAX));
    let share = |group: &ThreadGroup| {
        let threads = u64::from(group.threads) * u64::from(level) / most;
        u32::try_from(threads).unwrap_or(u32::MAX).max(1)
    };
    groups.iter().map(share).collect()
}

fn sum(groups: &[ThreadGroup], each: &[u32]) -> u32 {
    let groups = groups.iter().zip(each);
    groups.fold(0, |sum, (group, each)| sum.saturating_add(total(group, *each)))
}

fn total(group: &ThreadGroup, each: u32) -> u32 {
    group.processes.saturating_mul(each)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str, processes: u32, threads: u32) -> ThreadGroup {
        ThreadGroup {
            name: name.to_owned(),
            command: format!("change {name}"),
            processes,
            threads,
            threads_now: threads,
        }
    }

    #[test]
    fn each_group_keeps_its_part_and_each_process_has_a_thread() {
        let groups = [group("a", 2, 10), group("b", 1, 4)];
        assert_eq!(plan(&groups), 24);
        for (threads, expected) in
            [(24, [10, 4]), (100, [10, 4]), (12, [5, 2]), (11, [4, 1]), (3, [1, 1]), (0, [1, 1])]
        {
            assert_eq!(split(&groups, threads), expected, "{threads}");
        }
        assert!(split(&[], 7).is_empty() && steps(&[]).is_empty());
    }

    #[test]
    fn a_step_is_carried_out_as_it_is() {
        for groups in [
            vec![group("a", 2, 10), group("b", 1, 4)],
            vec![group("a", 1, 10), group("b", 1, 3)],
            vec![group("a", 7, 300), group("b", 40, 25), group("c", 1, 1)],
        ] {
            let steps = steps(&groups);
            assert!(steps.is_sorted() && steps.last() == Some(&plan(&groups)), "{steps:?}");
            for step in steps {
                assert_eq!(sum(&groups, &split(&groups, step)), step);
            }
        }
    }

    #[test]
    fn a_sentence_names_what_changes() {
        let groups = [group("workers.a", 2, 10), group("b:1", 1, 1)];
        let text = describe(&groups, 8, false).unwrap();
        assert_eq!(text, "threads of workers.a from 10 to 3 in each of 2 processes");
        let text = describe(&groups, 8, true).unwrap();
        assert!(text.ends_with("of 2 processes (change workers.a 3)"), "{text}");
        assert_eq!(describe(&groups, 21, true), None);
        let many: Vec<_> = (0..5).map(|it| group(&it.to_string(), 1, 10)).collect();
        assert!(describe(&many, 25, false).unwrap().ends_with(" and 2 more"));
    }
}
