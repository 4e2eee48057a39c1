//! The groups of workers whose threads the autopilot may change, and which Sidekiq processes are theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_admin::workers::{JobGroupState, Reported};
use weir_advisor::observation::{JobProcess, ProcessPresence};
use weir_autopilot::thread_groups::ThreadGroup;
use weir_base::node::hostname;
use weir_supervisor::control::{RollingState, Vacancy};
use weir_supervisor::workers::limited_group;

/// Generations of parents that are followed from a Sidekiq process to the command of its group.
const PARENTS_MAX: usize = 4;

/// The parent's state is not known, or not yet.
pub(super) const NOT_REPORTED: &str = "the parent has not reported the groups of workers";

/// The groups. Cheap to clone; clones share what was observed.
#[derive(Clone, Debug)]
pub(in crate::compose::autopilot) struct WorkerGroups {
    reported: Arc<Mutex<Reported>>,
    /// Those that may be changed. Empty: none, and all are watched.
    names: Arc<[String]>,
    hostname: Arc<str>,
    /// Threads of each group's processes by their last heartbeats.
    threads: Arc<Mutex<BTreeMap<String, u32>>>,
    /// The queues of limited classes, and the queues that their jobs are from.
    limited_queues: Arc<Mutex<BTreeMap<String, String>>>,
}

/// A group that may be changed, as the parent has reported it.
#[derive(Clone, Debug)]
pub(super) struct GroupNow {
    pub(super) name: String,
    pub(super) state: JobGroupState,
    pub(super) rolling: Option<RollingState>,
}

/// Sidekiq's processes by group.
#[derive(Clone, Debug, Default)]
pub(super) struct ObservedWorkers<'a> {
    /// The processes whose threads can be changed, or could be.
    pub(super) groups: Vec<ThreadGroup>,
    /// Their processes with the name of the group. Quiet ones take no jobs, and are not among them.
    pub(super) processes: Vec<(String, &'a JobProcess)>,
    /// The queues that they are told to serve.
    pub(super) queues: BTreeSet<String>,
    /// Any process can be changed, by whoever has started it.
    pub(super) are_all: bool,
    /// The queues of limited classes, and the queues that their jobs are from.
    pub(super) limited_queues: BTreeMap<String, String>,
}

impl ObservedWorkers<'_> {
    pub(super) fn has_processes(&self) -> bool {
        !self.processes.is_empty()
    }
}

impl WorkerGroups {
    pub(in crate::compose::autopilot) fn new(
        reported: Arc<Mutex<Reported>>,
        names: Vec<String>,
    ) -> Self {
        let (names, hostname) = (names.into(), hostname().into());
        let (threads, limited_queues) = (Arc::default(), Arc::default());
        Self { reported, names, hostname, threads, limited_queues }
    }

    pub(super) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns the names of the groups as `autopilot.manage` has them.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.iter().map(|name| format!("workers.{name}")).collect()
    }

    /// Returns whether the parent has reported all groups that may be changed.
    pub(super) fn are_reported(&self) -> bool {
        self.now().len() == self.names.len()
    }

    /// Returns the groups that may be changed.
    pub(super) fn now(&self) -> Vec<GroupNow> {
        let reported = self.reported();
        let group = |name: &String| {
            let group = reported.groups.get(name)?;
            let state = group.jobs.as_deref()?.clone();
            Some(GroupNow { name: name.clone(), state, rolling: group.rolling.clone() })
        };
        self.names.iter().filter_map(group).collect()
    }

    /// Returns the group that serves a limited class of a group's jobs, if the parent has one.
    pub(super) fn limited_group(&self, name: &str) -> Option<GroupNow> {
        let name = limited_group(name);
        let reported = self.reported();
        let group = reported.groups.get(&name)?;
        let state = group.jobs.as_deref().filter(|jobs| jobs.limited_of.is_some())?.clone();
        Some(GroupNow { name, state, rolling: group.rolling.clone() })
    }

    /// Returns those of all groups that may be changed.
    pub(super) fn limited_groups(&self) -> Vec<GroupNow> {
        self.names.iter().filter_map(|name| self.limited_group(name)).collect()
    }

    /// Returns whether a process that serves a limited class runs.
    pub(super) fn serves_limited_queue(&self) -> bool {
        let names: Vec<String> = self.names.iter().map(|name| limited_group(name)).collect();
        let reported = self.reported();
        reported.processes().any(|process| names.contains(&process.group))
    }

    /// Returns why a process for a limited class does not start.
    pub(super) fn failure_of_limited(&self) -> Option<String> {
        let names: Vec<String> = self.names.iter().map(|name| limited_group(name)).collect();
        let reported = self.reported();
        let slots = reported.slots.iter().filter(|((group, _), _)| names.contains(group));
        let failed = slots.filter_map(|((group, _), slot)| match &slot.vacancy {
            Some(Vacancy::Failed { reason, .. }) => Some(format!("workers.{group}: {reason}")),
            _ => None,
        });
        failed.into_iter().next()
    }

    pub(super) fn note_limited_queues(&self, queues: BTreeMap<String, String>) {
        *self.limited() = queues;
    }

    fn limited(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.limited_queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the threads of a group's processes by their last heartbeats.
    pub(super) fn observed_threads(&self, group: &str) -> Option<u32> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).get(group).copied()
    }

    pub(super) fn note_threads(&self, workers: &ObservedWorkers<'_>) {
        let mut threads: BTreeMap<String, u32> = BTreeMap::new();
        for (group, process) in &workers.processes {
            *threads.entry(group.clone()).or_default() += threads_of(process);
        }
        *self.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
    }

    /// Assigns processes to groups.
    pub(super) fn of<'a>(&self, processes: &'a [JobProcess]) -> ObservedWorkers<'a> {
        let (pids, known) = {
            let reported = self.reported();
            let pids = reported.processes().map(|it| (it.pid, it.group.clone()));
            let pids: BTreeMap<i32, String> = pids.collect();
            let known = reported.groups.iter();
            let known =
                known.filter_map(|(name, it)| Some((name.clone(), it.jobs.as_deref()?.clone())));
            (pids, known.collect::<BTreeMap<String, JobGroupState>>())
        };
        let mut workers = ObservedWorkers {
            are_all: !self.has_names(),
            limited_queues: self.limited().clone(),
            ..ObservedWorkers::default()
        };
        let mut others = Vec::new();
        for process in processes.iter().filter(|process| is_running(process) && !process.quiet) {
            match self.group_of(process, &pids) {
                Some(group) if workers.are_all || self.names.contains(group) => {
                    workers.processes.push((group.clone(), process));
                }
                None if workers.are_all => others.push(process),
                _ => {}
            }
        }
        let is_watched = |name: &String| match workers.are_all {
            true => workers.processes.iter().any(|(group, _)| group == name),
            false => self.names.contains(name),
        };
        for (name, state) in known.iter().filter(|(name, _)| is_watched(name)) {
            // What an operator has set is not the autopilot's to change.
            let is_by_hand = state.set.as_ref().is_some_and(|set| set.threads.is_some());
            workers.groups.extend(thread_group(name, state).filter(|_| !is_by_hand));
            let queues = state.in_force.queues.iter();
            workers.queues.extend(queues.map(|queue| queue_name(queue).to_owned()));
        }
        for process in others {
            workers.groups.push(single(process));
            workers.processes.push((process_name(process), process));
        }
        workers
    }

    fn group_of<'p>(
        &self,
        process: &JobProcess,
        pids: &'p BTreeMap<i32, String>,
    ) -> Option<&'p String> {
        if *process.hostname != *self.hostname {
            return None;
        }
        let mut pid = i32::try_from(process.pid).ok()?;
        for _ in 0..PARENTS_MAX {
            if let Some(group) = pids.get(&pid) {
                return Some(group);
            }
            pid = parent(pid).filter(|parent| *parent > 1)?;
        }
        None
    }

    fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a group whose threads can be changed. None: its command does not get them.
pub(super) fn thread_group(name: &str, state: &JobGroupState) -> Option<ThreadGroup> {
    Some(ThreadGroup {
        name: format!("workers.{name}"),
        command: format!("weir workers set {name} --threads"),
        processes: state.in_force.processes,
        threads: state.unlimited_threads?,
        threads_now: state.in_force.threads?,
    })
}

/// A process that Weir does not run.
fn single(process: &JobProcess) -> ThreadGroup {
    let threads = threads_of(process).max(1);
    ThreadGroup {
        name: process_name(process),
        command: "start it with -c".to_owned(),
        processes: 1,
        threads,
        threads_now: threads,
    }
}

fn process_name(process: &JobProcess) -> String {
    let tag = process.tag.as_ref().map(|tag| format!(" ({tag})")).unwrap_or_default();
    format!("{}:{}{tag}", process.hostname, process.pid)
}

/// Returns whether a process runs, as far as known.
pub(super) fn is_running(process: &JobProcess) -> bool {
    !matches!(process.presence, ProcessPresence::Silent | ProcessPresence::Gone)
}

pub(super) fn threads_of(process: &JobProcess) -> u32 {
    process.capsules.iter().fold(0, |sum, capsule| sum.saturating_add(capsule.concurrency))
}

/// Returns the name of a queue as the command gets it, which may have a weight.
pub(super) fn queue_name(argument: &str) -> &str {
    argument.split_once(',').map_or(argument, |(name, _)| name)
}

fn parent(pid: i32) -> Option<i32> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    parent_of(&std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?)
}

/// Returns the parent's process ID from a process' `stat`, whose second field may have spaces and parentheses.
fn parent_of(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_a_process_is_found_whatever_its_name() {
        assert_eq!(parent_of("12 (sh) x) S 7 12 12 0"), Some(7));
        assert_eq!(parent_of("12 (sidekiq 6.4 [3 of 10 busy]) R 4711 12"), Some(4711));
        assert_eq!(parent_of("12"), None);
    }

    #[test]
    fn queues_have_names_without_weights() {
        assert_eq!((queue_name("push,2"), queue_name("default")), ("push", "default"));
    }
}
