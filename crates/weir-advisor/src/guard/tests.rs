//! Checks for arbitrary observations that applying one suggested line, or all of them, leaves no
//! queue unserved. The lines are interpreted as printed, independently of the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;
use crate::advise;
use crate::flow::Flow;
use crate::healthy;
use crate::observation::{Fact, ObservedQueue, Ordering, SidekiqObservation, WeightedQueue};

const NAMES: [&str; 8] =
    ["default", "push", "mailers", "mailer", "scheduler", "pull", "pull_backlog", "fasp"];

const ORDERS: [Ordering; 4] =
    [Ordering::Strict, Ordering::Random, Ordering::Weighted, Ordering::Unknown];
const PRESENCES: [ProcessPresence; 4] = [
    ProcessPresence::Seen,
    ProcessPresence::Presumed,
    ProcessPresence::Silent,
    ProcessPresence::Gone,
];

/// Queues by process and by the place that a suggested line names for the capsule.
type Serving = BTreeMap<(String, String), Vec<String>>;

fn any_process(pid: u32) -> impl Strategy<Value = JobProcess> {
    let queues = subsequence(&NAMES[..], 0..=NAMES.len()).prop_shuffle();
    let capsules = proptest::collection::vec((queues, select(&ORDERS[..]), 0..6u32), 1..3);
    (capsules, select(&PRESENCES[..]), any::<bool>(), 0..6u64).prop_map(
        move |(capsules, presence, quiet, busy)| {
            let name = |at: usize| if at == 0 { "default" } else { "other" }.to_owned();
            let queue = |name: &&str| WeightedQueue { name: (*name).to_owned(), weight: 2 };
            let capsule =
                |(at, (queues, ordering, concurrency)): (usize, (Vec<&str>, _, _))| Capsule {
                    name: name(at),
                    concurrency,
                    ordering,
                    queues: queues.iter().map(queue).collect(),
                };
            JobProcess {
                capsules: capsules.into_iter().enumerate().map(capsule).collect(),
                presence,
                // One process in four is quiet.
                quiet: quiet && pid.is_multiple_of(2),
                busy,
                cores_used: Fact::Known(1.0),
                ..healthy::process(pid, 5, Ordering::Strict, &[])
            }
        },
    )
}

fn any_queue(name: &'static str) -> impl Strategy<Value = ObservedQueue> {
    (any::<bool>(), select(&[0u64, 1, 40, 5_000][..]), select(&[0u64, 90, 3_600][..])).prop_map(
        move |(pushed, length, seconds)| {
            let window = Duration::from_secs(10);
            let flow = Flow { window, before: length, after: length, ..Flow::default() };
            ObservedQueue {
                name: name.to_owned(),
                pushed: pushed || length > 0,
                length,
                latency: Duration::from_secs(if length > 0 { seconds } else { 0 }),
                flow: Fact::Known(flow),
                ..ObservedQueue::default()
            }
        },
    )
}

prop_compose! {
    fn any_observation()(
        processes in proptest::collection::vec(any::<u8>(), 0..5).prop_flat_map(|some| {
            (1..).zip(some).map(|(pid, _)| any_process(pid)).collect::<Vec<_>>()
        }),
        queues in NAMES.into_iter().map(any_queue).collect::<Vec<_>>(),
        pushes in subsequence(&NAMES[..], 0..=NAMES.len()),
    ) -> Observation {
        let mut observation = healthy::observation();
        *observation.jobs.known_mut() = SidekiqObservation { queues, processes, ..SidekiqObservation::default() };
        let pushes: Vec<String> = pushes.into_iter().map(str::to_owned).collect();
        observation.pushed_queues = if pushes.is_empty() { Fact::NotAsked } else { Fact::Known(pushes) };
        observation
    }
}

fn serving(jobs: &SidekiqObservation, counts: impl Fn(&JobProcess) -> bool) -> Serving {
    let mut serving = Serving::new();
    for process in jobs.processes.iter().filter(|it| counts(it)) {
        for capsule in &process.capsules {
            let queues = capsule.queues.iter().map(|it| it.name.clone()).collect();
            serving.insert((process.identity.clone(), capsule.name.clone()), queues);
        }
    }
    serving
}

fn served(serving: &Serving) -> BTreeSet<&str> {
    serving.values().flatten().map(String::as_str).collect()
}

/// Parses "-q a,1 -q b" or "cap.queues = ['a,1', 'b']".
fn queues_of(line: &str) -> Vec<String> {
    let name = |word: &str| word.split(',').next().unwrap_or_default().to_owned();
    if let Some((_, list)) = line.split_once("cap.queues = [") {
        let words = list.trim_end_matches(']').split(", ").map(|it| it.trim_matches('\''));
        return words.map(name).collect();
    }
    line.split("-q ").skip(1).map(|it| name(it.trim())).collect()
}

/// Applies a finding literally. Returns false if it is not about queues.
fn follow(serving: &mut Serving, finding: &Finding) -> bool {
    let Some(change) = finding.line_change() else { return false };
    let (place, line) = (change.place.as_str(), change.line.as_str());
    if let Some(identity) = place.strip_prefix("the unit of ") {
        let identity = identity.trim_end_matches(", split into two units").to_owned();
        serving.retain(|(process, _), _| *process != identity);
        for (at, unit) in line.split("; ").filter(|it| it.contains("-q ")).enumerate() {
            serving.insert((identity.clone(), format!("unit {at}")), queues_of(unit));
        }
        return true;
    }
    if !line.contains("-q ") && !line.contains("cap.queues") {
        return false;
    }
    match place.strip_prefix("all queues of ") {
        Some(rest) => {
            let rest = rest.split(" (").next().expect("words");
            let (capsule, identity) = match rest.split_once(" of ") {
                Some((capsule, identity)) => (capsule.trim_end_matches(" capsule"), identity),
                None => ("default", rest),
            };
            let capsule = capsule.trim_start_matches("the ").trim_start_matches("capsule ");
            let key = (identity.to_owned(), capsule.to_owned());
            assert!(serving.contains_key(&key) || !line.is_empty(), "{place}");
            serving.insert(key, queues_of(line));
        }
        None => {
            serving.insert((place.to_owned(), finding.subject.clone()), queues_of(line));
        }
    }
    true
}

/// Returns the queues that jobs are pushed to. Names that only a process has may be misspelt.
fn needed(observation: &Observation) -> BTreeSet<&str> {
    let jobs = observation.jobs.known().expect("they were seen");
    let pushed = jobs.queues.iter().filter(|it| it.pushed).map(|it| it.name.as_str());
    let pushes = observation.pushed_queues.known().into_iter().flatten().map(String::as_str);
    pushed.chain(pushes).collect()
}

/// Returns the queues that a running process served before, that a finding removes from a process,
/// and that no process seen running serves afterwards.
fn stranded(observation: &Observation, findings: &[&Finding]) -> Vec<String> {
    let jobs = observation.jobs.known().expect("they were seen");
    let all = serving(jobs, JobProcess::takes_jobs);
    let mut after_all = all.clone();
    let mut after_sure = serving(jobs, |it| it.presence == ProcessPresence::Seen && !it.quiet);
    let sure: BTreeSet<_> = after_sure.keys().map(|(process, _)| process.clone()).collect();
    for finding in findings {
        follow(&mut after_all, finding);
        let mut alone = after_sure.clone();
        follow(&mut alone, finding);
        // A change to a process that may have ended does not start it.
        alone.retain(|(process, _), _| sure.contains(process));
        after_sure = alone;
    }
    let left = |process: &str, queue: &str| {
        let own = after_all.iter().filter(|((it, _), _)| it == process);
        !own.flat_map(|(_, queues)| queues).any(|it| it == queue)
    };
    let needed = needed(observation);
    let mut stranded = Vec::new();
    for ((process, _), queues) in &all {
        for queue in queues.iter().filter(|it| needed.contains(it.as_str())) {
            if left(process, queue) && !served(&after_sure).contains(queue.as_str()) {
                stranded.push(queue.clone());
            }
        }
    }
    stranded
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_024, ..ProptestConfig::default() })]

    #[test]
    fn no_printed_line_leaves_a_queue_unserved(observation in any_observation()) {
        let findings = advise(&observation).findings;
        for finding in &findings {
            let stranded = stranded(&observation, &[finding]);
            prop_assert!(stranded.is_empty(), "{:?} by {:?}", stranded, finding);
        }
        let all: Vec<&Finding> = findings.iter().collect();
        let stranded = stranded(&observation, &all);
        prop_assert!(stranded.is_empty(), "{:?} by {:?}", stranded, findings);
    }
}

/// Returns two processes that serve the scheduler. The one without other queues was just killed.
fn killed(presence: ProcessPresence) -> Observation {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    let queue = WeightedQueue { name: SCHEDULER.to_owned(), weight: 1 };
    jobs.processes[0].capsules[0].queues.push(queue);
    jobs.processes[1].presence = presence;
    observation
}

fn lines(observation: &Observation) -> Vec<(Option<String>, Option<String>)> {
    let findings = advise(observation).findings.into_iter();
    let of_rule = findings.filter(|it| it.rule == "scheduler");
    of_rule
        .map(|it| (it.line_change().map(|it| it.line.clone()), it.next_step().map(str::to_owned)))
        .collect()
}

#[test]
fn the_only_live_process_never_has_to_leave_the_scheduler() {
    let seen = lines(&killed(ProcessPresence::Seen));
    assert_eq!(seen.len(), 1, "both run: one of them leaves it");
    assert!(!seen[0].0.as_ref().unwrap().contains(SCHEDULER), "{seen:?}");
    for presence in [ProcessPresence::Silent, ProcessPresence::Gone] {
        assert_eq!(lines(&killed(presence)), [], "{presence:?}: one serves it");
    }
    // The other process was seen running, so it retains the scheduler.
    let presumed = lines(&killed(ProcessPresence::Presumed));
    assert!(presumed.iter().all(|(line, _)| line.as_deref() == Some("stop and disable it")));
}

#[test]
fn where_neither_was_seen_to_run_nobody_is_told_to_leave_it() {
    let mut observation = killed(ProcessPresence::Presumed);
    observation.jobs.known_mut().processes[0].presence = ProcessPresence::Presumed;
    let said = lines(&observation);
    assert_eq!(said, [(None, Some(LOOK_LONGER.to_owned()))]);
}

#[test]
fn a_queue_whose_process_comes_back_is_given_to_no_other() {
    for (presence, quiet) in [
        (ProcessPresence::Gone, false),
        (ProcessPresence::Silent, false),
        (ProcessPresence::Seen, true),
    ] {
        let mut observation = healthy::observation();
        let process = &mut observation.jobs.known_mut().processes[1];
        (process.presence, process.quiet) = (presence, quiet);
        let findings = advise(&observation).findings;
        let of_scheduler = findings.iter().find(|it| it.rule == "scheduler").unwrap();
        assert_eq!(of_scheduler.line_change(), None, "{of_scheduler:?}");
        assert!(of_scheduler.evidence.starts_with("shop:2:"), "{of_scheduler:?}");
    }
}

#[test]
fn a_line_about_queues_whose_effect_nobody_has_said_is_not_given_out() {
    let finding = Finding::new("rule", crate::Severity::Warning, "a", "b")
        .change("somewhere", "bundle exec sidekiq -q a");
    assert_eq!(Guard::of(&healthy::observation()).pass(finding.clone()).line_change(), None);
    assert_eq!(without_queues(finding).line_change(), None);
}

#[test]
fn a_line_that_does_harm_alone_or_after_another_is_not_given_out() {
    let observation = killed(ProcessPresence::Seen);
    let processes = &observation.jobs.known().unwrap().processes;
    let stop = |at: usize| {
        let process = processes[at].identity.clone();
        let finding = Finding::new("rule", crate::Severity::Warning, "a", "b");
        finding.change("somewhere", "stop it").assigns(Assignment::Stop { process })
    };
    assert_eq!(
        Guard::of(&observation).pass(stop(0)).line_change(),
        None,
        "nobody serves the others"
    );
    let mut guard = Guard::of(&observation);
    let capsule = &processes[0].capsules[0];
    let names = capsule.queues.iter().map(|queue| queue.name.clone());
    let queues = names.filter(|name| name != SCHEDULER).collect();
    let (process, capsule) = (processes[0].identity.clone(), capsule.name.clone());
    let leave = Assignment::Queues { process, capsule, queues };
    assert!(guard.pass(stop(1)).line_change().is_some(), "the other one serves the scheduler");
    let leave = stop(0).change("somewhere", "leave it").assigns(leave);
    assert!(Guard::of(&observation).pass(leave.clone()).line_change().is_some());
    assert_eq!(guard.pass(leave).line_change(), None, "nobody is left for the scheduler");
}
