//! Suggests the list of queues of a process.
//!
//! `-q` replaces all queues of `sidekiq.yml`, and a process serves only the queues that are listed.
//! A suggested line therefore always contains all of them.

mod applications;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use weir_base::hint;

use crate::action::Assignment;
use crate::finding::Finding;
use crate::guard;
use crate::observation::{
    Capsule, JobProcess, Observation, Ordering, ProcessPresence, SidekiqObservation, WeightedQueue,
    is_set_aside,
};
use crate::rules::starving_queue;

/// Threads of a new Sidekiq process when nothing is known.
const CONCURRENCY: u32 = 5;
const SCHEDULER: &str = "scheduler";
/// Unserved queues that are checked for misspellings. Each is compared with every served name, and
/// clients that push jobs can create any number of them.
const MISSPELT_MAX: usize = 20;

/// The queues of all capsules after a repair that leaves no queue unserved. All findings share this
/// list, so applying one finding does not undo another.
#[derive(Default)]
pub(crate) struct Repaired<'a> {
    capsules: Vec<(&'a JobProcess, &'a Capsule, Vec<WeightedQueue>)>,
    /// For each unserved queue: the capsule that is to serve it, and the misspelt name there.
    by_queue: BTreeMap<&'a str, (usize, Option<String>)>,
    /// The applications of the running processes, if there are several. It is unknown which of them
    /// has the code for the jobs of an unserved queue.
    applications: Vec<&'a str>,
    /// Unserved queues that no line is suggested for, because any of several applications may run
    /// their jobs.
    ambiguous: BTreeSet<&'a str>,
}

impl<'a> Repaired<'a> {
    pub(crate) fn of(observation: &'a Observation) -> Self {
        let mut repaired = Self::default();
        let Some(jobs) = observation.jobs.known() else { return repaired };
        repaired.applications = applications::several(jobs);
        let of = |process: &'a JobProcess| {
            process.capsules.iter().map(move |it| (process, it, it.queues.clone()))
        };
        repaired.capsules = jobs.serving().flat_map(of).collect();
        let pushed = observation.pushed_queues.known().map(Vec::as_slice).unwrap_or_default();
        let waiting = jobs
            .queues
            .iter()
            .filter(|it| !it.paused && (it.length > 0 || it.name == SCHEDULER && it.pushed));
        let names = waiting.map(|it| it.name.as_str()).chain(pushed.iter().map(String::as_str));
        // Queues of a quiet or ended process are served once that process is restarted.
        let is_nobodys = |name: &&str| {
            jobs.serving_queue(name).next().is_none() && jobs.absent_servers(name).next().is_none()
        };
        // A queue may be that of a process that hangs.
        for name in names.filter(is_nobodys).filter(|_| jobs.unlisted.is_empty()) {
            match repaired.applications.is_empty() {
                true => repaired.add(jobs, pushed, name),
                false => _ = repaired.ambiguous.insert(name),
            }
        }
        repaired.assign_one_scheduler();
        for (process, capsule, names) in starving_queue::to_begin_with(jobs) {
            repaired.begin_with(process, capsule, &names);
        }
        repaired
    }

    /// Adds the repaired line of a capsule to the finding.
    pub(crate) fn line_of(
        &self,
        finding: Finding,
        process: &JobProcess,
        capsule: &Capsule,
    ) -> Finding {
        match self.capsules.iter().find(|it| is_it(it, process, capsule)) {
            Some((process, capsule, queues)) => self.changed(finding, process, capsule, queues),
            None => finding,
        }
    }

    /// Reports whether the repair changes the queues of a capsule that serves `queue`.
    pub(crate) fn is_changed(&self, queue: &str) -> bool {
        let serves = |queues: &[WeightedQueue]| queues.iter().any(|it| it.name == queue);
        let mut serving = self.capsules.iter().filter(|(_, _, queues)| serves(queues));
        serving.any(|(_, capsule, queues)| capsule.queues != *queues)
    }

    /// Adds the line of a capsule that serves `queue`, with `backlogs` behind all other queues.
    /// Returns the finding unchanged if no running process serves it.
    pub(crate) fn with_last(&self, finding: Finding, queue: &str, backlogs: &[String]) -> Finding {
        let serves = |queues: &[WeightedQueue]| queues.iter().any(|it| it.name == queue);
        let mut capsules = self.capsules.iter();
        let Some((process, capsule, queues)) = capsules.find(|(_, _, queues)| serves(queues))
        else {
            return finding;
        };
        let mut queues = queues.clone();
        queues.retain(|it| !backlogs.contains(&it.name));
        // The lowest possible weight is 1, which must be left to the backlog.
        let least = queues.iter().map(|it| it.weight).min().unwrap_or_default();
        let factor = if least < 2 { 2 } else { 1 };
        for queue in &mut queues {
            queue.weight = queue.weight.max(1).saturating_mul(factor);
        }
        let last = |name: &String| WeightedQueue { name: name.clone(), weight: 1 };
        queues.extend(backlogs.iter().map(last));
        // In equal random order, no queue would be last.
        let ordering = match capsule.ordering {
            Ordering::Random => Ordering::Weighted,
            other => other,
        };
        let capsule = Capsule { ordering, ..(*capsule).clone() };
        self.changed(finding, process, &capsule, &queues)
    }

    /// Moves starving queues to the front and preserves the order of the others.
    fn begin_with(&mut self, process: &JobProcess, capsule: &Capsule, names: &[&str]) {
        if let Some((_, _, queues)) =
            self.capsules.iter_mut().find(|it| is_it(it, process, capsule))
        {
            queues.sort_by_key(|it| !names.contains(&it.name.as_str()));
        }
    }

    /// Adds the line for a process that should no longer serve the scheduler, because another one
    /// does.
    pub(crate) fn without_scheduler(&self, finding: Finding, process: &JobProcess) -> Finding {
        if !self.applications.is_empty() {
            return applications::share_scheduler(finding, &self.applications);
        }
        let serves = |it: &Capsule| it.queues.iter().any(|queue| queue.name == SCHEDULER);
        let mut own = self.capsules.iter().filter(|(it, _, _)| it.identity == process.identity);
        match own.find(|(_, capsule, _)| serves(capsule)) {
            // Without any -q, it would serve the queue `default`.
            Some((_, _, queues)) if queues.is_empty() => {
                let finding = finding
                    .change(format!("the unit of {}", process.identity), "stop and disable it");
                finding.assigns(Assignment::Stop { process: process.identity.clone() })
            }
            // No process that was seen running would serve the scheduler.
            Some((_, _, queues)) if queues.iter().any(|it| it.name == SCHEDULER) => {
                finding.next(guard::LOOK_LONGER)
            }
            Some((_, capsule, queues)) => self.changed(finding, process, capsule, queues),
            None => finding,
        }
    }

    /// Leaves the scheduler to one process: among those seen running, the one with the fewest other
    /// queues. Changes nothing if none was seen running, or if the processes are of several
    /// applications, each of which has periodic jobs of its own.
    fn assign_one_scheduler(&mut self) {
        if !self.applications.is_empty() {
            return;
        }
        let is_it = |queue: &WeightedQueue| queue.name == SCHEDULER;
        let serving = self.capsules.iter_mut().filter(|(_, _, queues)| queues.iter().any(is_it));
        let mut serving: Vec<_> = serving.collect();
        serving.sort_by_key(|(process, _, _)| scheduler_rank(process));
        if serving.first().is_none_or(|(process, _, _)| process.presence != ProcessPresence::Seen) {
            return;
        }
        for (_, _, queues) in serving.into_iter().skip(1) {
            queues.retain(|queue| !is_it(queue));
        }
    }

    /// Returns the process that serves a similar name to which no jobs are pushed, and that name.
    pub(crate) fn misspelt(&self, queue: &str) -> Option<(&'a str, &str)> {
        let (at, served) = self.by_queue.get(queue)?;
        Some((self.capsules[*at].0.identity.as_str(), served.as_deref()?))
    }

    /// Adds the line that makes a capsule serve `queue`, or says why there is none.
    pub(crate) fn change(&self, finding: Finding, queue: &str) -> Finding {
        if self.ambiguous.contains(queue) {
            return applications::ask_which(finding, &self.applications);
        }
        let Some((at, _)) = self.by_queue.get(queue) else { return finding };
        let (process, capsule, queues) = &self.capsules[*at];
        self.changed(finding, process, capsule, queues)
    }

    /// Adds the line that makes `capsule` of `process` serve `queues`.
    fn changed(
        &self,
        finding: Finding,
        process: &JobProcess,
        capsule: &Capsule,
        queues: &[WeightedQueue],
    ) -> Finding {
        finding
            .change_and_restart(words::place(process, capsule), words::line(capsule, queues))
            .assigns(Assignment::Queues {
                process: process.identity.clone(),
                capsule: capsule.name.clone(),
                queues: queues.iter().map(|queue| queue.name.clone()).collect(),
            })
    }

    fn add(&mut self, jobs: &SidekiqObservation, pushed: &[String], name: &'a str) {
        if self.by_queue.contains_key(name) {
            return;
        }
        let is_nobodys = |served: &&str| {
            let is_pushed = jobs.queue(served).is_some_and(|it| it.pushed);
            // Queues for `weir sidekiq set-aside` may be empty for now.
            !is_pushed && !is_set_aside(served) && !pushed.iter().any(|it| it == served)
        };
        let all = self.capsules.iter().flat_map(|(_, _, queues)| queues);
        let nobodys = all.map(|it| it.name.as_str()).filter(is_nobodys);
        let may_compare = self.by_queue.len() < MISSPELT_MAX;
        let served = if may_compare { hint::closest(name, nobodys) } else { None };
        let served = served.map(str::to_owned);
        let at = match &served {
            Some(served) => self
                .capsules
                .iter()
                .position(|(_, _, queues)| queues.iter().any(|it| it.name == *served)),
            None => self.main(),
        };
        let Some(at) = at else { return };
        let queues = &mut self.capsules[at].2;
        let similar = served.as_ref().and_then(|it| queues.iter().position(|its| its.name == *it));
        match similar {
            // The similar name stays: that no job has been pushed to it says nothing about tomorrow.
            Some(similar) => {
                let weight = queues[similar].weight;
                queues.insert(similar, WeightedQueue { name: name.to_owned(), weight });
            }
            // The scheduler's jobs are few and short, and they must not be late.
            None if name == SCHEDULER => {
                queues.insert(0, WeightedQueue { name: name.to_owned(), weight: 1 })
            }
            None => {
                // Queues that were set aside stay last.
                let others = queues.iter().rposition(|it| !is_set_aside(&it.name));
                let at =
                    if is_set_aside(name) { queues.len() } else { others.map_or(0, |it| it + 1) };
                queues.insert(at, WeightedQueue { name: name.to_owned(), weight: 1 });
            }
        }
        self.by_queue.insert(name, (at, served));
    }

    /// Returns the index of the capsule with the most queues.
    fn main(&self) -> Option<usize> {
        let count = |(_, (_, capsule, _)): &(usize, &(_, &Capsule, _))| {
            std::cmp::Reverse(capsule.queues.len())
        };
        self.capsules.iter().enumerate().min_by_key(count).map(|(at, _)| at)
    }
}

fn is_it(
    (process, capsule, _): &(&JobProcess, &Capsule, Vec<WeightedQueue>),
    wanted: &JobProcess,
    of: &Capsule,
) -> bool {
    process.identity == wanted.identity && capsule.name == of.name
}

/// Returns a sort key for choosing the process that serves the scheduler: first seen running, then
/// with the fewest queues.
pub(crate) fn scheduler_rank(process: &JobProcess) -> (bool, usize) {
    (process.presence != ProcessPresence::Seen, process.served().count())
}

/// Adds the command for one more process, which takes no queue from another.
pub(crate) fn one_more(finding: Finding, concurrency: u32, names: &[&str]) -> Finding {
    let threads = concurrency.clamp(1, CONCURRENCY);
    let line = format!("bundle exec sidekiq -c {threads} {}", new_flags(names));
    finding
        .change("one additional process", line)
        .assigns(Assignment::Start { queues: names.iter().map(ToString::to_string).collect() })
        .adds_connections(threads)
}

/// Returns the `-q` flags for the queues of a new process.
fn new_flags(names: &[&str]) -> String {
    let queue = |name: &&str| WeightedQueue { name: (*name).to_owned(), weight: 1 };
    let queues: Vec<_> = names.iter().map(queue).collect();
    let order = if queues.len() > 1 { Ordering::Random } else { Ordering::Strict };
    words::flags(order, &queues)
}

/// Suggests to replace one process by two, so that each can use a core. Both serve the same queues,
/// except the scheduler, which only one of them serves.
pub(crate) fn in_two(finding: Finding, process: &JobProcess, capsule: &Capsule) -> Finding {
    let threads = capsule.concurrency;
    let (first, second) = (threads.div_ceil(2), (threads / 2).max(1));
    let without = capsule.queues.iter().filter(|it| it.name != SCHEDULER);
    let without: Vec<WeightedQueue> = without.cloned().collect();
    let line = |threads: u32, queues: &[WeightedQueue]| {
        format!("sidekiq -c {threads} {}", words::flags(capsule.ordering, queues))
    };
    let both = format!("{}; {}", line(first, &capsule.queues), line(second, &without));
    let names = |queues: &[WeightedQueue]| queues.iter().map(|it| it.name.clone()).collect();
    finding
        .change_and_restart(format!("the unit of {}, split into two units", process.identity), both)
        .assigns(Assignment::Queues {
            process: process.identity.clone(),
            capsule: capsule.name.clone(),
            queues: names(&capsule.queues),
        })
        .assigns(Assignment::Start { queues: names(&without) })
        .adds_connections((first + second).saturating_sub(threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::healthy::{self, process};
    use crate::observation::{Fact, ObservedQueue};

    #[test]
    fn the_line_has_all_queues_with_their_weights_and_names_quoted() {
        let main = process(1, 25, Ordering::Weighted, &[("default", 8), ("it's", 6)]);
        let capsule = &main.capsules[0];
        assert_eq!(words::flags(capsule.ordering, &capsule.queues), r"-q default,8 -q 'it'\''s',6");
        assert_eq!(words::flags(Ordering::Strict, &capsule.queues), r"-q default -q 'it'\''s'");
    }

    #[test]
    fn two_that_are_left_over_are_in_the_lines_of_both() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes.pop();
        let queues = &mut jobs.processes[0].capsules[0].queues;
        queues[3].name = "mailer".to_owned();
        queues.pop();
        let repaired = Repaired::of(&observation);
        let line = |queue: &str| {
            let finding = Finding::new("rule", Severity::Critical, "", "");
            repaired.change(finding, queue).line_change().unwrap().line.clone()
        };
        let all = "-q scheduler,1 -q default,8 -q push,6 -q ingress,4 -q mailers,2 -q mailer,2 -q pull,1 \
             -q fasp,1";
        assert_eq!(line("fasp"), all);
        assert_eq!(line("mailers"), all);
        assert_eq!(line("scheduler"), all);
        assert_eq!(repaired.misspelt("mailers").unwrap().1, "mailer");
        assert_eq!(repaired.misspelt("fasp"), None);
    }

    #[test]
    fn a_queue_that_is_left_over_comes_before_what_was_set_aside() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes = vec![process(1, 5, Ordering::Strict, &[("push", 0), ("push_backlog", 0)])];
        let left_over = |name: &str| ObservedQueue {
            name: name.to_owned(),
            length: 7,
            ..ObservedQueue::default()
        };
        jobs.queues = vec![left_over("mailers"), left_over("pull_backlog")];
        observation.pushed_queues = Fact::NotAsked;
        let finding = Finding::new("rule", Severity::Critical, "", "");
        let line = Repaired::of(&observation)
            .change(finding, "mailers")
            .line_change()
            .unwrap()
            .line
            .clone();
        assert_eq!(line, "-q push -q mailers -q push_backlog -q pull_backlog");
    }

    #[test]
    fn among_several_applications_no_process_gets_a_queue_of_an_unknown_one() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes[0].capsules[0].queues.retain(|queue| queue.name != "mailers");
        jobs.processes[0].capsules[0].queues[0].name = "mailer".to_owned();
        let finding = || Finding::new("rule", Severity::Critical, "", "").leads_to("It waits.");
        let line =
            |observation: &Observation| Repaired::of(observation).change(finding(), "mailers");
        let same = |tag: &str| Some(tag.to_owned());
        observation.jobs.known_mut().processes.iter_mut().for_each(|it| it.tag = same("shop"));
        assert!(line(&observation).line_change().is_some(), "all are of one application");
        observation.jobs.known_mut().processes[1].tag = same("blog");
        let asked = line(&observation);
        assert_eq!(
            (asked.line_change(), asked.assignments().count(), asked.next_step()),
            (None, 0, None)
        );
        let expected = "It waits. No change is suggested: the running processes have different \
                        tags (blog and shop), so they may be of several applications, and it is \
                        unknown which of them the jobs belong to. A process of another application fails on jobs \
                        whose class it does not have: after their retries they are in the dead \
                        set, and without retries they are lost. Add the queue to a process of the \
                        application that pushes to it.";
        assert_eq!(asked.consequence, expected);
        assert_eq!(Repaired::of(&observation).misspelt("mailers"), None, "it may be the other's");
        // A process without a tag may be of another application as well.
        observation.jobs.known_mut().processes[1].tag = None;
        assert!(line(&observation).consequence.contains("(shop and none)"));
        observation.jobs.known_mut().processes[1].presence = ProcessPresence::Gone;
        assert!(line(&observation).line_change().is_some(), "the other one has ended");
    }

    #[test]
    fn each_application_keeps_its_process_of_the_scheduler() {
        let mut observation = healthy::observation();
        let mut third = process(3, 5, Ordering::Strict, &[("scheduler", 0), ("mailers", 0)]);
        third.tag = Some("blog".to_owned());
        let jobs = observation.jobs.known_mut();
        jobs.processes.push(third.clone());
        let finding = Finding::new("rule", Severity::Warning, "", "");
        let kept = Repaired::of(&observation).without_scheduler(finding, &third);
        assert_eq!(
            (kept.line_change(), kept.assignments().count(), kept.next_step()),
            (None, 0, None)
        );
        assert!(kept.consequence.contains("(blog and none)"));
    }

    #[test]
    fn a_process_more_gives_each_a_turn() {
        let line = |threads, names: &[&str]| {
            let finding = Finding::new("rule", Severity::Critical, "", "");
            one_more(finding, threads, names).line_change().unwrap().line.clone()
        };
        assert_eq!(line(25, &["pull"]), "bundle exec sidekiq -c 5 -q pull");
        assert_eq!(line(2, &["a", "b"]), "bundle exec sidekiq -c 2 -q a,1 -q b,1");
    }
}
