//! No job is lost, and the seed decides everything.

use weir_simulate::policy::PolicyKind;
use weir_simulate::surge::surge;

use crate::system::{System, balance};

/// The most changes within an hour in the surges 1 to 500 (`weir simulate --surges 1-500`).
const CHANGES_PER_HOUR_MAX: usize = 282;

#[test]
fn no_job_is_lost() {
    for seed in [1, 2, 3, 4, 5, 6] {
        let mut scenario = surge(seed);
        scenario.seconds = 2_400.0;
        for kind in PolicyKind::ALL {
            let (arrived, found) = balance(&kind.simulate(&scenario, seed));
            assert_eq!(arrived, found, "surge {seed}, {kind}");
        }
    }
}

#[test]
fn changes_in_an_hour_are_bounded() {
    // In the last two, a type that holds locks was once let go and limited again every half minute.
    for seed in [3, 303, 400] {
        let record = PolicyKind::Autopilot.simulate(&surge(seed), seed);
        let changes = record.decisions_per_hour_max();
        assert!(changes <= CHANGES_PER_HOUR_MAX, "surge {seed}: {changes}");
    }
}

#[test]
fn jobs_that_fail_are_retried_and_then_dead() {
    let system = System {
        seconds: 20_000.0,
        class: "fails = 0.5\nattempts = 3",
        threads: 10,
        ..System::default()
    };
    let record = system.run();
    let class = &record.classes[0];
    let ended = (class.done + class.dead) as f64;
    // Half of a half of a half.
    assert!((class.dead as f64 / ended - 0.125).abs() < 0.01, "{class:?}");
    assert_eq!(balance(&record).0, balance(&record).1);
}

#[test]
fn jobs_without_a_connection_fail() {
    let mut scenario = System {
        database: 0.5,
        threads: 50,
        per_second: 20.0,
        seconds: 600.0,
        ..System::default()
    }
    .scenario();
    scenario.database.connections = 10;
    let record = PolicyKind::Nothing.simulate(&scenario, 1);
    assert!(record.rejected_connections > 0);
    assert_eq!(record.connections_max, 10);
    assert_eq!(balance(&record).0, balance(&record).1);
}

#[test]
fn same_seed_gives_the_same_result() {
    let mut scenario = surge(9);
    scenario.seconds = 1_800.0;
    for kind in PolicyKind::ALL {
        let run = |seed| format!("{:?}", kind.simulate(&scenario, seed));
        assert_eq!(run(9), run(9), "{kind}");
        assert_ne!(run(9), run(10), "{kind}");
    }
}

#[test]
fn policies_meet_the_same_jobs() {
    let mut scenario = surge(9);
    scenario.seconds = 550.0;
    let arrived = |kind: PolicyKind| {
        let record = kind.simulate(&scenario, 9);
        record.classes.iter().map(|class| class.arrived).collect::<Vec<_>>()
    };
    let expected = arrived(PolicyKind::Nothing);
    for kind in PolicyKind::ALL {
        assert_eq!(arrived(kind), expected, "{kind}");
    }
}
