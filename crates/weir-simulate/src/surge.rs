//! Random systems that are hit by a surge, to compare policies on cases that nobody chose.
//!
//! The ranges below and the seeds were fixed before any policy was tuned. Policies are tuned with [`TUNING`] only; the
//! figures in docs/simulate.md are those of [`REPORTED`].

use std::ops::{Range, RangeInclusive};

use fastrand::Rng;

use crate::engine::random::stream;
use crate::scenario::{
    Class, DatabaseModel, Distribution, Event, Machine, Order, Queue, Scenario, Workers,
};

/// Seeds that policies may be tuned with.
pub const TUNING: RangeInclusive<u64> = 1..=500;
/// Seeds that are only reported.
pub const REPORTED: RangeInclusive<u64> = 501..=1_000;

/// The surge begins after this time, in which a policy learns what is normal.
const BEGINS_SECONDS: f64 = 600.0;
/// The longest simulation.
const SECONDS: f64 = 4.0 * 3_600.0;

const URGENT_QUEUES: RangeInclusive<usize> = 1..=2;
const URGENT_TARGET_SECONDS: Range<f64> = 2.0..30.0;
const OTHER_QUEUES: RangeInclusive<usize> = 1..=3;
const OTHER_TARGET_SECONDS: Range<f64> = 60.0..3_600.0;
const CLASSES_OF_QUEUE: RangeInclusive<usize> = 1..=4;
/// Mean run times (log-uniform).
const URGENT_SECONDS: Range<f64> = 0.05..1.0;
const OTHER_RUN_SECONDS: Range<f64> = 0.1..5.0;
const DATABASE_SHARE: Range<f64> = 0.2..0.95;
const FAILS: Range<f64> = 0.0..0.02;
/// Sessions at full speed (log-uniform).
const SESSIONS: Range<f64> = 6.0..24.0;
const CONTENTION: Range<f64> = 0.0..0.6;
/// Load of the database before the surge.
const UTILIZATION: Range<f64> = 0.3..0.7;
/// Share of the urgent queues in that load.
const URGENT_SHARE: Range<f64> = 0.05..0.3;
/// Threads of the static plan, in those that are busy on average.
const THREADS_FACTOR: Range<f64> = 1.3..3.0;
/// Threads of a process.
const PROCESS_THREADS: RangeInclusive<u32> = 5..=25;
/// The most processes, in those of the static plan.
const PROCESSES_FACTOR: u32 = 4;
/// Connections, in threads of the static plan.
const CONNECTIONS_FACTOR: Range<f64> = 1.5..5.0;
/// How long the database needs for the additional work with all its spare capacity (log-uniform).
const EXTRA_WORK_SECONDS: Range<f64> = 300.0..2_400.0;
/// How long the cause lasts.
const CAUSE_SECONDS: Range<f64> = 300.0..1_800.0;
const SLOWER_FACTOR: Range<f64> = 3.0..30.0;
const SESSIONS_LEFT: Range<f64> = 0.3..0.7;
const FAILING: Range<f64> = 0.5..1.0;
const IDLE_IN_TRANSACTION_SECONDS: Range<f64> = 5.0..60.0;
/// Server connections of the pooler, in sessions at full speed.
const POOL_FACTOR: Range<f64> = 1.5..4.0;

/// Returns the scenario of a seed.
#[must_use]
pub fn surge(seed: u64) -> Scenario {
    let mut rng = stream(seed, 0x0073_7572_6765);
    let rng = &mut rng;
    let sessions = log_uniform(rng, SESSIONS);
    let utilization = uniform(rng, UTILIZATION);
    let queues = queues(rng);
    let mut classes: Vec<Class> = Vec::new();
    for queue in &queues {
        (0..rng.usize(CLASSES_OF_QUEUE))
            .for_each(|_| classes.push(class(rng, queue, classes.len())));
    }
    let urgent_share = uniform(rng, URGENT_SHARE);
    scale_rates(&queues, &mut classes, utilization * sessions, urgent_share);
    share_a_lock(rng, &mut classes);
    let busy: f64 = classes.iter().map(|class| class.per_second * class.seconds).sum();
    let threads = (busy * uniform(rng, THREADS_FACTOR)).max(5.0);
    let workers = workers(rng, &queues, threads);
    let threads: u32 = workers.iter().map(|it| it.processes * it.threads).sum();
    let has_pool = rng.f64() < 0.3;
    let pool = has_pool.then(|| count(sessions * uniform(rng, POOL_FACTOR)));
    let memory: u32 = workers.iter().map(|it| it.processes).sum();
    let memory_factor = if rng.f64() < 0.3 { 2 } else { PROCESSES_FACTOR };
    let spare = (1.0 - utilization) * sessions;
    Scenario {
        about: format!("surge {seed}"),
        seconds: SECONDS,
        database: DatabaseModel {
            sessions,
            contention: uniform(rng, CONTENTION),
            connections: count(f64::from(threads) * uniform(rng, CONNECTIONS_FACTOR)),
            pool,
            pool_wait_seconds: 5.0,
            attribution: 0.9,
        },
        machine: Machine {
            memory_mb: f64::from(memory * memory_factor) * 512.0,
            process_start_seconds: uniform(rng, 10.0..30.0),
        },
        events: events(rng, &classes, sessions, spare),
        queues,
        classes,
        workers,
    }
}

fn queues(rng: &mut Rng) -> Vec<Queue> {
    let urgent = rng.usize(URGENT_QUEUES);
    let all = urgent + rng.usize(OTHER_QUEUES);
    let queue = |at: usize| {
        let urgent = at < urgent;
        let range = if urgent { URGENT_TARGET_SECONDS } else { OTHER_TARGET_SECONDS };
        let kind = if urgent { "urgent" } else { "other" };
        let target_seconds = log_uniform(rng, range);
        Queue { name: format!("{kind}{at}"), target_seconds, urgent, fresh_lane: false }
    };
    (0..all).map(queue).collect()
}

fn class(rng: &mut Rng, queue: &Queue, at: usize) -> Class {
    let distribution = match rng.u32(0..20) {
        0..10 => Distribution::Exponential,
        10..17 => Distribution::Lognormal,
        _ => Distribution::Constant,
    };
    let seconds = if queue.urgent { URGENT_SECONDS } else { OTHER_RUN_SECONDS };
    Class {
        name: format!("Class{at}"),
        queue: queue.name.clone(),
        // A weight for now; the rates are scaled to the load.
        per_second: log_uniform(rng, 0.1..1.0),
        backlog: 0,
        seconds: log_uniform(rng, seconds),
        distribution,
        database: uniform(rng, DATABASE_SHARE),
        cpu: 0.0,
        load: 1.0,
        fails: uniform(rng, FAILS),
        attempts: 26,
        limit: None,
        lock: None,
        idle_in_transaction_seconds: 0.0,
    }
}

/// Scales the rates so that the database is loaded with `load` sessions, the share of the urgent queues as given.
fn scale_rates(queues: &[Queue], classes: &mut [Class], load: f64, urgent_share: f64) {
    let is_urgent = |class: &Class| queues.iter().any(|it| it.urgent && it.name == class.queue);
    for (urgent, load) in [(true, load * urgent_share), (false, load * (1.0 - urgent_share))] {
        let of_kind = |class: &&mut Class| is_urgent(class) == urgent;
        let work = |class: &Class| class.per_second * class.seconds * class.database;
        let kind = classes.iter().filter(|class| is_urgent(class) == urgent);
        let sum: f64 = kind.map(work).sum();
        classes.iter_mut().filter(of_kind).for_each(|class| class.per_second *= load / sum);
    }
}

/// In a fifth of the systems two classes take turns on a lock.
fn share_a_lock(rng: &mut Rng, classes: &mut [Class]) {
    if rng.f64() >= 0.2 {
        return;
    }
    for _ in 0..2 {
        let class = rng.usize(0..classes.len());
        // A lock that is busy all the time would be a fault of the system, not a surge.
        let busy = classes[class].per_second * classes[class].seconds * classes[class].database;
        if busy < 0.3 {
            classes[class].lock = Some("row".to_owned());
        }
    }
}

/// Splits the threads among groups, as systems do it: all queues in one group, in a strict order or by weight, or a
/// group for each queue that helps the others when its own is empty.
fn workers(rng: &mut Rng, queues: &[Queue], threads: f64) -> Vec<Workers> {
    let per_process = rng.u32(PROCESS_THREADS);
    let weighted = |queue: &Queue| format!("{},{}", queue.name, if queue.urgent { 4 } else { 1 });
    let group = |name: &str, threads: f64, queues: Vec<String>, order: Order| {
        let per_process = per_process.min(count(threads));
        let processes = count((threads / f64::from(per_process)).ceil());
        Workers {
            name: name.to_owned(),
            processes,
            processes_max: Some(processes * PROCESSES_FACTOR),
            threads: per_process,
            memory_mb: 512.0,
            queues,
            order,
            managed: true,
        }
    };
    match rng.u32(0..3) {
        0 => vec![group("all", threads, queues.iter().map(weighted).collect(), Order::Weighted)],
        1 => {
            let names = queues.iter().map(|queue| queue.name.clone()).collect();
            vec![group("all", threads, names, Order::Strict)]
        }
        _ => {
            let share = threads / queues.len() as f64;
            let rotated = |at: usize| {
                let names = queues[at..].iter().chain(&queues[..at]);
                group(
                    &format!("group{at}"),
                    share,
                    names.map(|it| it.name.clone()).collect(),
                    Order::Strict,
                )
            };
            (0..queues.len()).map(rotated).collect()
        }
    }
}

/// Returns one cause, or in a third of the surges two.
fn events(rng: &mut Rng, classes: &[Class], sessions: f64, spare: f64) -> Vec<Event> {
    let causes = if rng.f64() < 1.0 / 3.0 { 2 } else { 1 };
    (0..causes).map(|_| event(rng, classes, sessions, spare)).collect()
}

fn event(rng: &mut Rng, classes: &[Class], sessions: f64, spare: f64) -> Event {
    let class = &classes[rng.usize(0..classes.len())];
    let lasts = uniform(rng, CAUSE_SECONDS);
    let mut event = Event {
        at_seconds: BEGINS_SECONDS,
        until_seconds: Some(BEGINS_SECONDS + lasts),
        class: Some(class.name.clone()),
        ..Event::default()
    };
    let extra_jobs =
        log_uniform(rng, EXTRA_WORK_SECONDS) * spare / (class.seconds * class.database);
    match rng.u32(0..8) {
        0 | 1 => event.burst = count(extra_jobs),
        2 | 3 => event.per_second = Some(class.per_second + extra_jobs / lasts),
        4 => event.seconds = Some(class.seconds * log_uniform(rng, SLOWER_FACTOR)),
        5 => event.load = Some(log_uniform(rng, SLOWER_FACTOR)),
        6 => {
            event.class = None;
            event.sessions = Some(sessions * uniform(rng, SESSIONS_LEFT));
        }
        _ if rng.bool() => event.fails = Some(uniform(rng, FAILING)),
        _ => {
            let idle = uniform(rng, IDLE_IN_TRANSACTION_SECONDS);
            event.idle_in_transaction_seconds = Some(idle);
        }
    }
    event
}

fn uniform(rng: &mut Rng, range: Range<f64>) -> f64 {
    range.start + (range.end - range.start) * rng.f64()
}

fn log_uniform(rng: &mut Rng, range: Range<f64>) -> f64 {
    uniform(rng, range.start.ln()..range.end.ln()).exp()
}

/// Rounds to a count of at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive number; larger ones than 32 bits hold are limited"
)]
fn count(number: f64) -> u32 {
    number.round().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_surges_are_valid_and_their_load_fits() {
        for seed in TUNING.chain(REPORTED) {
            let surge = surge(seed);
            surge.check().unwrap();
            let work = |class: &Class| class.per_second * class.seconds * class.database;
            let load: f64 = surge.classes.iter().map(work).sum();
            assert!(load < 0.7 * surge.database.sessions, "{seed}");
            let busy: f64 = surge.classes.iter().map(|it| it.per_second * it.seconds).sum();
            let threads: u32 = surge.workers.iter().map(|it| it.processes * it.threads).sum();
            assert!(busy < f64::from(threads), "{seed}: {busy} of {threads}");
        }
    }

    #[test]
    fn seed_gives_the_same_surge() {
        assert_eq!(surge(17), surge(17));
        assert_ne!(surge(17).classes, surge(18).classes);
    }
}
