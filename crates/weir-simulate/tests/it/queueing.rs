//! Waits of queues whose averages are known.

use crate::system::System;

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 0.05, "{what}: {found}, expected {expected}");
}

/// M/M/1: the wait is ρ / (μ - λ).
#[test]
fn one_thread() {
    let record = System::default().run();
    assert_near(record.queues[0].waits.mean(), 0.7 / 0.3, "mean wait");
    // The waits of those that wait are exponential: P(wait > t) = ρ exp(-(μ - λ) t).
    let p95 = (0.7_f64 / 0.05).ln() / 0.3;
    assert_near(record.queues[0].waits.percentile(0.95), p95, "p95");
}

/// M/D/1: half the wait of M/M/1.
#[test]
fn one_thread_with_constant_run_times() {
    let record = System { class: "distribution = \"constant\"", ..System::default() }.run();
    assert_near(record.queues[0].waits.mean(), 0.5 * 0.7 / 0.3, "mean wait");
}

/// M/G/1 with log-normal run times: Pollaczek and Khinchine, with a squared coefficient of variation of e - 1.
#[test]
fn one_thread_with_lognormal_run_times() {
    let system = System {
        class: "distribution = \"lognormal\"",
        per_second: 0.5,
        seconds: 1_000_000.0,
        ..System::default()
    };
    let expected = 0.5 / 0.5 * std::f64::consts::E / 2.0;
    assert_near(system.run().queues[0].waits.mean(), expected, "mean wait");
}

/// M/M/c: Erlang's C formula.
#[test]
fn several_threads() {
    for (threads, load) in [(4_u32, 3.0), (20, 17.0)] {
        let record =
            System { threads, per_second: load, seconds: 200_000.0, ..System::default() }.run();
        let waits = erlang_c(threads, load);
        assert_near(
            record.queues[0].waits.mean(),
            waits / (f64::from(threads) - load),
            "mean wait",
        );
    }
}

/// Returns the probability that a job waits.
fn erlang_c(threads: u32, load: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 1.0;
    for count in 1..threads {
        term *= load / f64::from(count);
        sum += term;
    }
    let last = term * load / f64::from(threads) * f64::from(threads) / (f64::from(threads) - load);
    last / (sum + last)
}

/// M/M/1 with processor sharing: the time in the database is 1 / (μ - λ), with any distribution of run times.
#[test]
fn shared_database() {
    for class in ["", "distribution = \"constant\""] {
        let system =
            System { database: 1.0, sessions: 1.0, threads: 10_000, class, ..System::default() };
        assert_near(system.run().slowdown(), 1.0 / 0.3, class);
    }
}

/// Computation is shared within a process: one thread or many, a process completes one second of it per second.
#[test]
fn shared_processor() {
    let system = System { class: "cpu = 1.0", threads: 1_000, ..System::default() };
    let record = system.run();
    assert!(record.queues[0].waits.mean() < 0.01, "threads are free");
    let expected = 0.7 / 0.3;
    let busy = record.points.iter().map(|point| point.busy[0]).sum::<f64>();
    let busy = busy / record.points.len() as f64;
    // The number of jobs in the processor is ρ / (1 - ρ); 240 points tell it within some tenths.
    assert!((busy - expected).abs() < 0.8, "{busy}");
}

/// A lock is a server of its own: M/M/1 in the database.
#[test]
fn lock_is_held_by_one_job() {
    let system =
        System { database: 1.0, threads: 10_000, class: "lock = \"row\"", ..System::default() };
    assert_near(system.run().slowdown(), 1.0 / 0.3, "time in the database");
}

/// Connections of a pool are servers: two of them, M/M/2.
#[test]
fn pool_is_waited_for() {
    let mut scenario =
        System { database: 1.0, threads: 10_000, per_second: 1.5, class: "", ..System::default() }
            .scenario();
    scenario.database.pool = Some(2);
    scenario.database.pool_wait_seconds = 1e6;
    let record = weir_simulate::policy::PolicyKind::Nothing.simulate(&scenario, 1);
    let in_system = record.points.iter().map(|point| point.busy[0]).sum::<f64>();
    let found = in_system / record.points.len() as f64;
    let expected = erlang_c(2, 1.5) * 1.5 / 0.5 + 1.5;
    assert!((found - expected).abs() < 1.0, "{found}, expected {expected}");
}
