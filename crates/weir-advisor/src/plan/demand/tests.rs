use std::time::Duration;

use super::*;
use crate::flow::Flow;
use crate::healthy;
use crate::observation::{Fact, Ordering};

fn need(before: u64, after: u64, arrivals_per_second: f64, in_hand: u64) -> (f64, f64) {
    let window = Duration::from_secs(10);
    let flow = Fact::Known(Flow { window, before, after, arrivals_per_second, deviation: None });
    let demand =
        demand(&ObservedQueue { length: after, in_hand, flow, ..ObservedQueue::default() });
    (demand.arrivals_per_second, demand.service_seconds)
}

#[test]
fn a_backlog_shows_what_comes_and_how_long_each_takes() {
    // 10 jobs arrive and 10 threads complete 5, so each takes 2 s, and 20 threads keep up.
    assert_eq!(need(1_000, 1_050, 10.0, 10), (10.0, 2.0));
    // The backlog shrinks at 20 completions per second, which the plan must preserve.
    assert_eq!(need(1_000, 900, 10.0, 10), (20.0, 0.5));
}

#[test]
fn a_few_completions_do_not_show_how_long_jobs_take() {
    // Five threads hang for 20 s each. They began almost at once, so 2 or 12 may end in 10 s.
    let known = |arrivals_per_second, completed: u64| {
        let flow = Flow { window: Duration::from_secs(10), before: 500, ..Flow::default() };
        let after = flow.before + 23 - completed;
        let flow = Fact::Known(Flow { after, arrivals_per_second, ..flow });
        demand(&ObservedQueue { length: after, in_hand: 5, flow, ..ObservedQueue::default() })
    };
    assert_eq!(known(2.3, 10).known, DemandSource::All);
    for completed in [0, 2, 9] {
        let few = known(2.3, completed);
        assert_eq!((few.known, few.arrivals_per_second), (DemandSource::Comes, 2.3));
    }
    assert_eq!(known(0.0, 2).known, DemandSource::Busy, "the queue is almost empty");
}

#[test]
fn an_empty_queue_shows_its_jobs_in_hand() {
    let (rate, seconds) = need(0, 0, 0.0, 3);
    assert!((rate * seconds - 3.0).abs() < 1e-9);
    assert_eq!(need(0, 0, 0.0, 0), (0.0, SERVICE_SECONDS));
}

/// Three jobs arrived per second for ten seconds. All are finished, and none is in progress.
fn quick(looks: u32, in_hand: f64, per_second: f64) -> QueueDemand {
    let lately = Some(RecentActivity { looks, in_hand, per_second });
    let flow = Flow { arrivals_per_second: 3.0, ..Flow::default() };
    let flow = Fact::Known(Flow { window: Duration::from_secs(10), ..flow });
    demand(&ObservedQueue { flow, lately, ..ObservedQueue::default() })
}

#[test]
fn jobs_too_quick_to_be_met_by_one_look_are_told_by_many() {
    let met = quick(40, 0.05, 2.0);
    assert_eq!((met.known, met.arrivals_per_second), (DemandSource::All, 3.0));
    assert!((met.service_seconds - 0.05 / 3.0).abs() < 1e-9, "{met:?}");
    let never = quick(30, 0.0, 2.0);
    assert_eq!((never.known, never.arrivals_per_second), (DemandSource::AtMost, 3.0));
    assert!((never.service_seconds - 0.1 / 3.0).abs() < 1e-9, "{never:?}");
    assert_eq!(quick(9, 0.0, 2.0).known, DemandSource::Comes, "too few looks");
}

#[test]
fn looks_at_a_queue_to_which_nothing_came_tell_nothing() {
    let lately = Some(RecentActivity { looks: 200, in_hand: 0.0, per_second: 0.0 });
    assert_eq!(
        demand(&ObservedQueue { lately, ..ObservedQueue::default() }).known,
        DemandSource::Nothing
    );
    let busy = Some(RecentActivity { looks: 200, in_hand: 0.5, per_second: 0.0 });
    let busy = demand(&ObservedQueue { lately: busy, ..ObservedQueue::default() });
    assert_eq!(busy.known, DemandSource::Busy, "it was always empty and threads had its jobs");
    assert!((busy.arrivals_per_second * busy.service_seconds - 0.5).abs() < 1e-9);
}

#[test]
fn what_was_not_seen_is_assumed() {
    let known = |before, after, arrivals_per_second, in_hand| {
        let window = Duration::from_secs(10);
        let flow =
            Fact::Known(Flow { window, before, after, arrivals_per_second, deviation: None });
        demand(&ObservedQueue { length: after, in_hand, flow, ..ObservedQueue::default() }).known
    };
    assert_eq!(known(1_000, 1_050, 10.0, 10), DemandSource::All);
    assert_eq!(known(0, 0, 0.0, 3), DemandSource::Busy);
    assert_eq!(known(0, 100, 10.0, 0), DemandSource::Comes);
    assert_eq!(known(0, 0, 0.0, 0), DemandSource::Nothing);
    assert_eq!(known(7, 7, 0.0, 0), DemandSource::Nothing, "they only wait");
    assert_eq!(
        demand(&ObservedQueue::default()).known,
        DemandSource::Nothing,
        "it was looked at once"
    );
    assert_eq!(demand(&ObservedQueue::default()).threads_now, 0);
}

#[test]
fn an_idle_queue_keeps_the_threads_that_serve_it() {
    let demands = demands(&jobs(), &["mailers".to_owned()]);
    let now: Vec<_> = demands.queues.iter().map(|it| (it.name.as_str(), it.threads_now)).collect();
    assert_eq!(now, [("default", 4), ("mailers", 0), ("pull", 0), ("scheduler", 1)]);
}

fn named(name: &str, pushed: bool, length: u64) -> ObservedQueue {
    ObservedQueue { name: name.to_owned(), pushed, length, ..ObservedQueue::default() }
}

/// One process serves default, mailer and scheduler. Only pull has jobs.
fn jobs() -> SidekiqObservation {
    let served = [("default", 0), ("mailer", 0), ("scheduler", 0)];
    SidekiqObservation {
        queues: vec![
            named("default", true, 0),
            named("mailer", false, 0),
            named("mailers", true, 0),
            named("pull", true, 40),
            named("scheduler", false, 0),
            named("trends", true, 0),
        ],
        processes: vec![healthy::process(1, 5, Ordering::Strict, &served)],
        ..SidekiqObservation::default()
    }
}

fn names(demands: &Demands) -> (Vec<&str>, Vec<&str>) {
    (
        demands.queues.iter().map(|it| it.name.as_str()).collect(),
        demands.left_out.iter().map(|it| it.name.as_str()).collect(),
    )
}

#[test]
fn what_is_served_waits_or_is_pushed_is_planned_and_old_names_are_not() {
    let pushes = ["mailers", "fasp"].map(str::to_owned);
    let demands = demands(&jobs(), &pushes);
    let planned = vec!["default", "mailers", "pull", "scheduler", "fasp"];
    assert_eq!(names(&demands), (planned, vec!["mailer", "trends"]));
    assert!(demands.left_out[0].why.ends_with("a misspelling of \"mailers\""), "{demands:?}");
    assert!(demands.left_out[1].why.starts_with("it is empty and no process serves it"));
}

#[test]
fn a_queue_whose_only_process_is_quiet_is_one_all_the_same() {
    let mut jobs = jobs();
    jobs.processes[0].quiet = true;
    assert!(names(&demands(&jobs, &[])).0.contains(&"scheduler"));
}

#[test]
fn while_nobody_is_there_to_be_asked_no_name_is_old() {
    let mut jobs = jobs();
    jobs.has_more_processes = true;
    assert_eq!(names(&demands(&jobs, &[])).1, [""; 0]);
    jobs.has_more_processes = false;
    jobs.processes.clear();
    assert_eq!(names(&demands(&jobs, &[])).1, [""; 0]);
}
