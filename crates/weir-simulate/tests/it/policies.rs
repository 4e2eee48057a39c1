//! What the policies do in plain cases.

use weir_simulate::policy::PolicyKind;
use weir_simulate::{Record, Scenario};

use crate::system::System;

fn run(kind: PolicyKind, scenario: &Scenario) -> Record {
    kind.simulate(scenario, 1)
}

/// 40 jobs per second of half a second in the database, which serves 40 sessions: twice the load that it can.
fn overloaded() -> Scenario {
    let mut scenario = System {
        seconds: 3_600.0,
        per_second: 15.0,
        run_seconds: 1.0,
        database: 1.0,
        threads: 200,
        sessions: 20.0,
        rest: "[[events]]\nat_seconds = 600\nclass = \"Job\"\nburst = 6000\n",
        ..System::default()
    }
    .scenario();
    scenario.database.contention = 0.3;
    scenario
}

#[test]
fn controller_needs_fewer_sessions_than_a_fixed_layout() {
    let scenario = overloaded();
    let nothing = run(PolicyKind::Nothing, &scenario);
    let autopilot = run(PolicyKind::Autopilot, &scenario);
    assert!(nothing.slowdown() > 4.0, "{}", nothing.slowdown());
    assert!(autopilot.slowdown() < 2.5, "{}", autopilot.slowdown());
    let drain = |record: &Record| record.drain_seconds().unwrap_or(f64::INFINITY);
    assert!(drain(&autopilot) < drain(&nothing), "{} {}", drain(&autopilot), drain(&nothing));
}

#[test]
fn controller_is_quiet_while_nothing_happens() {
    let system = System {
        seconds: 4.0 * 3_600.0,
        per_second: 10.0,
        database: 0.5,
        threads: 25,
        ..System::default()
    };
    let record = run(PolicyKind::Autopilot, &system.scenario());
    assert!(record.decisions.len() <= 8, "{:?}", record.decisions);
}

#[test]
fn blind_controller_returns_to_the_static_plan() {
    let mut scenario = overloaded();
    let blind = weir_simulate::scenario::Event {
        at_seconds: 660.0,
        until_seconds: Some(1_500.0),
        blind: true,
        ..weir_simulate::scenario::Event::default()
    };
    scenario.events.push(blind);
    let record = run(PolicyKind::Autopilot, &scenario);
    let during = |from: f64, to: f64| {
        record.decisions.iter().filter(|it| (from..to).contains(&it.at_seconds)).count()
    };
    assert_eq!(during(671.0, 715.0), 0, "it holds for a minute: {:?}", record.decisions);
    assert!(during(715.0, 1_500.0) > 0, "then it steps back");
    let steps = record.decisions.iter().filter(|it| (715.0..1_500.0).contains(&it.at_seconds));
    assert!(steps.map(|it| &it.text).all(|text| text.contains("no data")));
    assert!(record.points.iter().any(|it| it.at_seconds < 1_500.0 && it.threads >= 200.0));
}

#[test]
fn scalers_add_processes_when_jobs_wait() {
    let mut scenario = overloaded();
    scenario.workers[0].threads = 20;
    scenario.workers[0].processes_max = Some(10);
    for kind in [PolicyKind::Keda, PolicyKind::Hpa] {
        let record = run(kind, &scenario);
        let most = record.points.iter().map(|it| it.busy[0]).fold(0.0, f64::max);
        assert!(most > 150.0, "{kind}: {most}");
        assert!(record.slowdown() > 3.0, "{kind}: {}", record.slowdown());
    }
}

#[test]
fn gitlab_cuts_a_class_above_its_quota_each_minute() {
    let record = run(PolicyKind::GitLabTuned, &overloaded());
    assert!(
        record.decisions[0].text.contains("limit of Job from 200 to"),
        "{:?}",
        record.decisions[0]
    );
    let published = run(PolicyKind::GitLab, &overloaded());
    assert_eq!(published.decisions.len(), 0, "20 sessions never use 20,000 s in a minute");
}

/// Surges for tuning in which earlier rules did harm, with room for another outcome of the same rules.
#[test]
fn controller_does_little_harm_where_earlier_rules_did() {
    for (seed, worst) in [(8, 1.25), (24, 1.15), (33, 1.25)] {
        let scenario = weir_simulate::surge::surge(seed);
        let drain = |kind: PolicyKind| {
            let record = kind.simulate(&scenario, seed);
            record.drain_seconds().unwrap_or(record.seconds)
        };
        let (nothing, autopilot) = (drain(PolicyKind::Nothing), drain(PolicyKind::Autopilot));
        assert!(autopilot <= worst * nothing, "{seed}: {autopilot} {nothing}");
    }
}
