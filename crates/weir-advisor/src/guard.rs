//! Removes changes that would leave a queue unserved.
//!
//! Every finding passes through the guard before it is reported. Remedies that change which process
//! serves which queues declare that in [`LineChange::serves`], and the guard checks the resulting
//! layout with [`plan`](crate::plan).
//!
//! Taking a queue from a process requires another process that serves it and was seen running,
//! because a heartbeat outlives its process by a minute. Assigning the scheduler requires that no
//! other process has it, including ones that may come back. A finding that fails the check loses
//! its change and says why.

use crate::action::{Assignment, LineChange};
use crate::finding::Finding;
use crate::observation::{Capsule, JobProcess, Observation, ProcessPresence};
use crate::plan::{Claim, ClaimOutcome, Gap, ProcessLayout, WorkerLayout, judge, unserved};
use crate::wording;

const SCHEDULER: &str = "scheduler";
/// Heartbeats are 10 s apart, so every running process is seen within this window.
pub(crate) const LOOK_LONGER: &str = "weir doctor --window 30s";
/// Text that marks a change of served queues even without [`LineChange::serves`].
const SIGNS: [&str; 2] = ["-q ", "cap.queues"];

/// Tracks the running processes and the changes suggested so far.
pub(crate) struct Guard {
    now: Vec<RunningProcess>,
    /// The processes after all remedies so far, because an operator may apply all of them.
    then: Vec<RunningProcess>,
}

/// A capsule of a process that is running or may come back.
#[derive(Clone)]
struct RunningProcess {
    process: String,
    worker: WorkerLayout,
    /// Whether it was seen running and accepts jobs.
    is_sure: bool,
}

impl Guard {
    pub(crate) fn of(observation: &Observation) -> Self {
        let jobs = observation.jobs.known();
        let processes = jobs.into_iter().flat_map(|jobs| &jobs.processes);
        let now: Vec<_> = processes.flat_map(running).collect();
        Self { then: now.clone(), now }
    }

    /// Returns the finding, without its change if that would do harm.
    pub(crate) fn pass(&mut self, finding: Finding) -> Finding {
        if finding.assignments().next().is_none() {
            return without_queues(finding);
        }
        let alone = changed(&self.now, finding.assignments());
        let after_others = changed(&self.then, finding.assignments());
        let harm = harm(&self.now, &alone).or_else(|| harm(&self.then, &after_others));
        match harm {
            None => {
                self.then = after_others;
                finding
            }
            Some(why) => without_line(finding, &why, LOOK_LONGER),
        }
    }
}

/// Removes changes of queues without [`LineChange::serves`], as their effect cannot be checked.
pub(crate) fn without_queues(finding: Finding) -> Finding {
    let is_about_queues = |line: &str| SIGNS.iter().any(|sign| line.contains(sign));
    let is_unchecked = |it: &LineChange| it.serves.is_empty() && is_about_queues(&it.line);
    match finding.line_change().is_some_and(is_unchecked) {
        true => {
            let why = "it is unknown which queues it would leave unserved";
            without_line(finding, why, LOOK_LONGER)
        }
        false => finding,
    }
}

/// Replaces the actions by a command, and says why.
pub(crate) fn without_line(finding: Finding, why: &str, next: &str) -> Finding {
    finding.adding(format_args!("No change is suggested: {why}.")).without_actions().next(next)
}

fn running(process: &JobProcess) -> impl Iterator<Item = RunningProcess> + '_ {
    let is_sure = process.presence == ProcessPresence::Seen && !process.quiet;
    process.capsules.iter().map(move |capsule| RunningProcess {
        process: process.identity.clone(),
        worker: worker(capsule),
        is_sure,
    })
}

fn worker(capsule: &Capsule) -> WorkerLayout {
    WorkerLayout {
        name: capsule.name.clone(),
        processes: 1,
        concurrency: capsule.concurrency,
        ordering: capsule.ordering,
        queues: capsule.queues.iter().map(|queue| queue.name.clone()).collect(),
        // Sidekiq 7 reports only the total threads of all capsules.
        gaps: vec![Gap::Threads],
        ..WorkerLayout::default()
    }
}

fn changed<'a>(
    before: &[RunningProcess],
    assignments: impl Iterator<Item = &'a Assignment>,
) -> Vec<RunningProcess> {
    let mut after = before.to_vec();
    for assignment in assignments {
        match assignment {
            Assignment::Queues { process, capsule, queues, .. } => {
                let is_it =
                    |it: &&mut RunningProcess| it.process == *process && it.worker.name == *capsule;
                for running in after.iter_mut().filter(is_it) {
                    running.worker.queues.clone_from(queues);
                }
            }
            Assignment::Stop { process } => after.retain(|it| it.process != *process),
            Assignment::Start { queues } => after.push(RunningProcess {
                process: String::new(),
                worker: WorkerLayout {
                    processes: 1,
                    queues: queues.clone(),
                    gaps: vec![Gap::Threads],
                    ..WorkerLayout::default()
                },
                is_sure: false,
            }),
        }
    }
    after
}

/// Describes the harm of a change, if any.
fn harm(before: &[RunningProcess], after: &[RunningProcess]) -> Option<String> {
    let lost = lost(before, after);
    let left = unserved(&layout(after.iter().filter(|it| it.is_sure)), &lost);
    if !left.is_empty() {
        let it = if left.len() == 1 { "it" } else { "them" };
        return Some(format!(
            "{} would be left without a process that is known to be running; others that serve \
             {it} may have ended since their last heartbeat",
            wording::list(left)
        ));
    }
    let has_one = |all: &[RunningProcess]| {
        let proofs = judge(&layout(all), &[SCHEDULER]);
        let of = proofs.iter().find(|proof| proof.claim == Claim::SchedulerOnce);
        of.is_some_and(|proof| proof.outcome == ClaimOutcome::Holds)
    };
    (has_one(before) && !has_one(after))
        .then(|| format!("two processes would serve {SCHEDULER} once its own process runs again"))
}

/// Returns the queues that a process would no longer serve.
fn lost<'a>(before: &'a [RunningProcess], after: &[RunningProcess]) -> Vec<&'a str> {
    let serves = |all: &[RunningProcess], process: &str, queue: &str| {
        all.iter().any(|it| it.process == process && it.worker.serves(queue))
    };
    let mut lost = Vec::new();
    for running in before {
        for queue in &running.worker.queues {
            if !serves(after, &running.process, queue) && !lost.contains(&queue.as_str()) {
                lost.push(queue.as_str());
            }
        }
    }
    lost
}

fn layout<'a>(running: impl IntoIterator<Item = &'a RunningProcess>) -> ProcessLayout {
    let workers = running.into_iter().map(|it| it.worker.clone()).collect();
    ProcessLayout { workers, ..ProcessLayout::default() }
}

#[cfg(test)]
mod tests;
