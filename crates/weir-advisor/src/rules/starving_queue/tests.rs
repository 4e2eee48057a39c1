use super::*;
use crate::flow::Flow;
use crate::healthy;
use crate::observation::{Pooler, SessionState};

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
    let change = finding.change.unwrap();
    assert_eq!(change.place, "one additional process");
    assert_eq!(change.line, "bundle exec sidekiq -c 5 -q mailers", "push keeps its process");
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
    let line = |observation: &Observation| check(observation).remove(0).change.map(|it| it.line);
    assert_eq!(line(&with(180)).unwrap(), "bundle exec sidekiq -c 5 -q mailers");
    assert_eq!(
        line(&with(183)).unwrap(),
        "bundle exec sidekiq -c 2 -q mailers",
        "2 of 197 less 12"
    );
    let mut full = with(185);
    let finding = check(&full).remove(0);
    assert_eq!((&finding.change, finding.assigns.len()), (&None, 0));
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
    let change = check(&observation).remove(0).change.unwrap();
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
        let first = |it: &crate::SuggestedChange| it.place.starts_with("all queues of shop:1:");
        of_rule.filter_map(|it| it.change.filter(first)).map(|it| it.line).collect()
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
    let line = &findings[0].change.as_ref().unwrap().line;
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
fn it_waits_its_turn_while_those_before_it_are_empty() {
    let mut observation = observation(Ordering::Strict);
    observation.jobs.known_mut().queue_mut("push").length = 0;
    assert_eq!(check(&observation), []);
}
