use super::*;
use crate::flow::Flow;
use crate::healthy;
use crate::observation::{JobInHand, LockWait, Pooler, SessionState};

/// Returns a flow without arrivals and completions.
fn stands(length: u64) -> Fact<Flow> {
    let window = Duration::from_secs(10);
    Fact::Known(Flow { window, before: length, after: length, ..Flow::default() })
}

fn observation(ordering: Ordering) -> Observation {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    jobs.processes[0] = healthy::process(1, 25, ordering, &[("push", 0), ("mailers", 0)]);
    let queue = jobs.queue_mut("mailers");
    (queue.length, queue.latency) = (40, Duration::from_secs(3_600));
    queue.flow = stands(40);
    let push = jobs.queue_mut("push");
    (push.length, push.flow) = (150_000, stands(150_000));
    observation
}

#[test]
fn mail_behind_pushes_in_strict_order_starves() {
    let finding = check(&observation(Ordering::Strict)).remove(0);
    assert_eq!(finding.severity, Severity::Critical);
    assert!(finding.evidence.ends_with("each process that serves it fetches from push first"));
    let change = finding.line_change().cloned().unwrap();
    assert_eq!(change.place, "one additional process");
    assert_eq!(change.line, "bundle exec sidekiq -c 5 -q mailers", "push keeps its process");
    assert_eq!(change.connections_added, 5);
    assert_eq!(finding.confidence, Confidence::Certain);
    let unknown = check(&observation(Ordering::Unknown)).remove(0);
    assert_eq!(unknown.confidence, Confidence::Possible, "its order may be another");
    assert_eq!(finding.since.unwrap().ago(), Duration::from_secs(3_600));
}

#[test]
fn a_queue_with_jobs_in_progress_does_not_starve() {
    let mut observation = observation(Ordering::Strict);
    observation.jobs.known_mut().queue_mut("mailers").in_hand = 1;
    assert_eq!(check(&observation), []);
}

#[test]
fn nothing_changes_while_redis_rejects_writes() {
    let mut observation = observation(Ordering::Strict);
    observation.redis[0].known_mut().info.persistence.last_append_ok = false;
    assert_eq!(check(&observation), []);
}

#[test]
fn an_additional_process_has_at_most_a_thread_for_each_free_slot() {
    let with = |held: u32| {
        let mut observation = observation(Ordering::Strict);
        let connections = observation.postgres.known_mut().connections.known_mut();
        connections.sessions = vec![healthy::sessions("psql", SessionState::Idle, held)];
        observation
    };
    let line = |observation: &Observation| {
        check(observation).remove(0).line_change().map(|it| it.line.clone())
    };
    assert_eq!(line(&with(180)).unwrap(), "bundle exec sidekiq -c 5 -q mailers");
    assert_eq!(
        line(&with(183)).unwrap(),
        "bundle exec sidekiq -c 2 -q mailers",
        "2 of 197 less 12"
    );
    let mut full = with(185);
    let finding = check(&full).remove(0);
    assert_eq!((finding.line_change(), finding.assignments().count()), (None, 0));
    assert!(finding.consequence.contains("and the database has no slots for more"));
    full.pooler = Some(Pooler { name: "pgbouncer".to_owned(), ..Pooler::default() });
    assert_eq!(line(&full), None, "no session shows that Sidekiq uses it");
    let connections = full.postgres.known_mut().connections.known_mut();
    connections.sessions.push(healthy::sessions("pgbouncer", SessionState::Idle, 3));
    assert!(line(&full).is_some(), "it connects to the pooler, as the others do");
    full.postgres = Fact::NotAsked;
    assert!(line(&full).is_some());
}

#[test]
fn where_two_begin_alike_one_of_them_begins_with_it_and_keeps_all_others() {
    let mut observation = observation(Ordering::Strict);
    let second = healthy::process(3, 5, Ordering::Strict, &[("push", 0), ("mailers", 0)]);
    observation.jobs.known_mut().processes.push(second);
    let change = check(&observation).remove(0).line_change().cloned().unwrap();
    assert!(change.place.starts_with("all queues of shop:1:"), "{}", change.place);
    let all = "-q mailers -q push -q default -q ingress -q pull -q fasp";
    assert_eq!(change.line, all, "with what nobody serves");
}

#[test]
fn its_line_has_what_other_findings_repair_and_theirs_begins_with_it() {
    let mut observation = observation(Ordering::Strict);
    let jobs = observation.jobs.known_mut();
    let queues = [("push", 0), ("mailers", 0), ("pulls", 0), ("scheduler", 0)];
    jobs.processes[0] = healthy::process(1, 25, Ordering::Strict, &queues);
    let second = healthy::process(3, 5, Ordering::Strict, &[("push", 0), ("mailers", 0)]);
    jobs.processes.push(second);
    for name in ["default", "ingress", "fasp"] {
        jobs.queue_mut(name).length = 0;
    }
    observation.pushed_queues = Fact::NotAsked;
    let lines = |rule: &str| -> Vec<String> {
        let findings = crate::advise(&observation).findings;
        let of_rule = findings.into_iter().filter(|it| it.rule == rule);
        let lines = of_rule.filter_map(|it| it.line_change().cloned());
        let first = lines.filter(|it| it.place.starts_with("all queues of shop:1:"));
        first.map(|it| it.line).collect()
    };
    let all = "-q mailers -q push -q pull -q pulls";
    assert_eq!(lines(NAME), [all]);
    assert_eq!(lines("unserved-queue"), [all], "pull is served as well");
    assert_eq!(lines("scheduler"), [all], "another process has it");
}

#[test]
fn several_in_one_place_are_one_finding() {
    let mut observation = observation(Ordering::Strict);
    let jobs = observation.jobs.known_mut();
    let queues = [("push", 0), ("mailers", 0), ("pull", 0)];
    jobs.processes[0] = healthy::process(1, 25, Ordering::Strict, &queues);
    let pull = jobs.queue_mut("pull");
    (pull.length, pull.latency) = (500, Duration::from_secs(900));
    pull.flow = stands(500);
    let findings = check(&observation);
    assert_eq!(findings.len(), 1);
    let line = &findings[0].line_change().unwrap().line;
    assert_eq!(line, "bundle exec sidekiq -c 5 -q mailers,1 -q pull,1");
}

#[test]
fn what_was_set_aside_and_what_is_served_or_about_to_be_does_not_starve() {
    let mut aside = observation(Ordering::Strict);
    let jobs = aside.jobs.known_mut();
    jobs.queue_mut("mailers").name = "mailers_backlog".to_owned();
    jobs.processes[0].capsules[0].queues[1].name = "mailers_backlog".to_owned();
    assert_eq!(check(&aside), []);

    let mut served = observation(Ordering::Strict);
    served.jobs.known_mut().queue_mut("mailers").flow.known_mut().before = 42;
    assert_eq!(check(&served), []);

    let mut idle = observation(Ordering::Strict);
    let push = idle.jobs.known_mut().queue_mut("push");
    (push.length, push.flow) = (23, stands(23));
    assert_eq!(check(&idle), [], "a thread of 25 is left");
    idle.jobs.known_mut().queue_mut("push").length = 24;
    assert_eq!(check(&idle).len(), 1);
}

#[test]
fn sidekiq_6_may_be_strict_and_weights_give_turns() {
    assert_eq!(check(&observation(Ordering::Unknown))[0].severity, Severity::Notice);
    assert_eq!(check(&observation(Ordering::Weighted)), []);
}

#[test]
fn one_process_that_looks_at_it_first_is_enough() {
    let mut observation = observation(Ordering::Strict);
    let other = healthy::process(3, 5, Ordering::Strict, &[("mailers", 0), ("push", 0)]);
    observation.jobs.known_mut().processes.push(other);
    assert_eq!(check(&observation), []);
}

#[test]
fn a_minute_is_the_limit() {
    let mut observation = observation(Ordering::Strict);
    observation.jobs.known_mut().queue_mut("mailers").latency = Duration::from_secs(59);
    assert_eq!(check(&observation), []);
    observation.jobs.known_mut().queue_mut("mailers").latency = Duration::from_secs(60);
    assert_eq!(check(&observation).len(), 1);
}

#[test]
fn a_queue_that_grows_is_found_earlier() {
    let mut observation = observation(Ordering::Strict);
    let window = Duration::from_secs(10);
    let grows = Flow { window, before: 20, after: 40, arrivals_per_second: 2.0, deviation: None };
    let queue = observation.jobs.known_mut().queue_mut("mailers");
    (queue.latency, queue.flow) = (Duration::from_secs(29), Fact::Known(grows));
    assert_eq!(check(&observation), []);
    observation.jobs.known_mut().queue_mut("mailers").latency = Duration::from_secs(30);
    let finding = check(&observation).remove(0);
    assert_eq!((finding.severity, finding.confidence), (Severity::Warning, Confidence::Certain));
    observation.jobs.known_mut().queue_mut("mailers").latency = Duration::from_secs(60);
    assert_eq!(check(&observation)[0].severity, Severity::Critical);
}

#[test]
fn it_waits_its_turn_while_those_before_it_are_empty() {
    let mut observation = observation(Ordering::Strict);
    observation.jobs.known_mut().queue_mut("push").length = 0;
    assert_eq!(check(&observation), []);
}

/// Returns three processes whose threads have run long jobs of `push` for 10 s to 38 s, while jobs of
/// `default` wait, which has a higher weight.
fn held() -> Observation {
    let mut observation = healthy::observation();
    let jobs = observation.jobs.known_mut();
    let queues = [("default", 10), ("push", 1)];
    jobs.processes =
        (1..=3).map(|pid| healthy::process(pid, 5, Ordering::Weighted, &queues)).collect();
    let import = |seconds| JobInHand {
        class: "Import".to_owned(),
        queue: "push".to_owned(),
        age: Duration::from_secs(seconds),
    };
    for process in &mut jobs.processes {
        process.in_hand = [10, 17, 24, 31, 38].map(import).to_vec();
    }
    let queue = jobs.queue_mut("default");
    (queue.length, queue.latency, queue.flow) = (30, Duration::from_secs(90), stands(30));
    observation
}

#[test]
fn long_jobs_that_hold_all_threads_keep_another_queue_waiting() {
    let finding = check(&held()).remove(0);
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Warning, "queue default"));
    let expected = "30 jobs wait, the oldest for 1 min 30 s; jobs of push hold all 15 threads that serve \
                    it, the oldest for 38 s";
    assert_eq!(finding.evidence, expected);
    assert!(finding.consequence.starts_with("It gets a thread only when one of those jobs ends."));
    assert_eq!(finding.line_change().unwrap().line, "bundle exec sidekiq -c 5 -q default");
    let jobs = held();
    let holders = holders(jobs.jobs.known().unwrap());
    assert_eq!(holders.get("push"), Some(&vec!["default"]));
}

#[test]
fn the_severity_of_held_threads_depends_on_the_order_and_on_growth() {
    let severity = |change: &dyn Fn(&mut SidekiqObservation)| {
        let mut observation = held();
        change(observation.jobs.known_mut());
        check(&observation).remove(0).severity
    };
    let ordered = |ordering, own: u32| {
        severity(&move |jobs: &mut SidekiqObservation| {
            for process in &mut jobs.processes {
                process.capsules[0].ordering = ordering;
                process.capsules[0].queues[0].weight = own;
            }
        })
    };
    assert_eq!(ordered(Ordering::Weighted, 1), Severity::Warning, "as often as the other");
    assert_eq!(ordered(Ordering::Weighted, 0), Severity::Notice, "it is meant to wait");
    assert_eq!(ordered(Ordering::Random, 0), Severity::Notice);
    assert_eq!(ordered(Ordering::Strict, 0), Severity::Warning, "it is the first");
    assert_eq!(ordered(Ordering::Unknown, 0), Severity::Warning);
    let grows = |jobs: &mut SidekiqObservation| {
        let queue = jobs.queue_mut("default");
        (queue.length, queue.flow) = (300, stands(300));
        (queue.flow.known_mut().before, queue.flow.known_mut().arrivals_per_second) = (200, 12.0);
    };
    assert_eq!(severity(&grows), Severity::Critical, "a few were completed, and it grows");
}

#[test]
fn long_jobs_are_named_unless_the_order_surely_keeps_the_queue_waiting() {
    let evidence = |ordering| {
        let mut observation = held();
        let jobs = observation.jobs.known_mut();
        let push = jobs.queue_mut("push");
        (push.length, push.flow) = (500, stands(500));
        for process in &mut jobs.processes {
            process.capsules[0].ordering = ordering;
            process.capsules[0].queues.swap(0, 1);
        }
        check(&observation).remove(0).evidence
    };
    assert!(evidence(Ordering::Unknown).contains("jobs of push hold all 15 threads"));
    assert!(evidence(Ordering::Strict).contains("fetches from push first"));
}

#[test]
fn threads_that_are_free_or_unknown_or_soon_free_do_not_starve_a_queue() {
    let found = |change: &dyn Fn(&mut SidekiqObservation)| {
        let mut observation = held();
        change(observation.jobs.known_mut());
        check(&observation).len()
    };
    assert_eq!(found(&|_| {}), 1);
    assert_eq!(found(&|jobs| _ = jobs.processes[2].in_hand.pop()), 0, "a thread is free");
    assert_eq!(found(&|jobs| jobs.processes[2].in_hand[0].queue.clear()), 0, "of an unknown queue");
    assert_eq!(found(&|jobs| jobs.has_more_processes = true), 0, "others may serve it");
    assert_eq!(found(&|jobs| jobs.queue_mut("default").in_hand = 1), 0, "it has a thread");
    let short = |jobs: &mut SidekiqObservation| {
        let in_hand = jobs.processes.iter_mut().flat_map(|it| &mut it.in_hand);
        in_hand.for_each(|job| job.age = Duration::from_secs(13));
    };
    assert_eq!(found(&short), 0, "9 s at the last heartbeat");
    let hang = |jobs: &mut SidekiqObservation| {
        let in_hand = jobs.processes.iter_mut().flat_map(|it| &mut it.in_hand);
        in_hand.for_each(|job| job.age = Duration::from_secs(600));
    };
    assert_eq!(found(&hang), 0, "the rule stuck-threads reports that");
    let two = |jobs: &mut SidekiqObservation| {
        let capsule = jobs.processes[0].capsules[0].clone();
        jobs.processes[0].capsules.push(capsule);
    };
    assert_eq!(found(&two), 0, "which capsule has the jobs is unknown");
    assert_eq!(found(&|jobs| jobs.processes[2].quiet = true), 1, "that one serves none");
}

#[test]
fn jobs_that_may_wait_for_a_lock_are_no_reason_for_another_process() {
    let mut observation = held();
    let wait = LockWait {
        waiting_service: "sidekiq".to_owned(),
        waited: Duration::from_secs(30),
        ..LockWait::default()
    };
    *observation.postgres.known_mut().lock_waits.known_mut() = vec![wait];
    let finding = check(&observation).remove(0);
    assert_eq!((finding.line_change(), finding.assignments().count()), (None, 0));
    assert!(finding.consequence.ends_with("end that wait first."), "{finding:?}");
}

#[test]
fn the_process_for_a_queue_behind_long_jobs_comes_before_their_backlog() {
    let mut observation = held();
    let jobs = observation.jobs.known_mut();
    let push = jobs.queue_mut("push");
    (push.length, push.latency, push.flow) = (1_500, Duration::from_secs(900), stands(1_500));
    let findings = crate::advise(&observation).findings;
    let of = |rule: &str| findings.iter().position(|it| it.rule == rule).unwrap();
    assert!(of(NAME) < of("backlog"), "{findings:?}");
    assert!(!findings.iter().any(|it| it.to_do().is_some_and(|it| it.contains("set-aside"))));
}
