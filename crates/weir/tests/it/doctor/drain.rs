//! What doctor says of the time to drain, and how long it then takes.
//!
//! That the forecast is right is tested with simulated drains in weir-advisor, where no machine is in the
//! way. Here it is seen to come out of real processes. `WEIR_DRAIN=long` and `--nocapture` for the figures of
//! the documentation: ten seconds between the looks, more jobs that come, and drains to their end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::json;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, now, push};
use crate::process::wait_until;

/// Jobs that come, in bunches so far apart.
const BUNCH: Duration = Duration::from_millis(50);
const BUNCHES_PER_SECOND: usize = 20;
/// In a run of all tests so much fewer come: a machine that is busy must not fall behind for good.
const RATE_SHARE: usize = 4;

struct Shape {
    name: &'static str,
    /// Job class, queue, jobs that wait, jobs that come per second.
    queues: &'static [(&'static str, &'static str, usize, usize)],
    /// Command lines.
    processes: &'static [&'static [&'static str]],
}

const STEADY: Shape = Shape {
    name: "one queue, each job 20 ms, nothing comes",
    queues: &[("Nap", "pull", 18_000, 0)],
    processes: &[&["-c", "10", "-q", "pull"]],
};
const HEAVY: Shape = Shape {
    name: "one job in 20 takes 20 times as long, 300 a second come",
    queues: &[("Heavy", "push", 9_000, 300)],
    processes: &[&["-c", "10", "-q", "push"]],
};
const SEVERAL: Shape = Shape {
    name: "three queues, strict order, of two processes one does not serve the backlog's",
    queues: &[("Nap", "default", 0, 60), ("Nap", "push", 0, 60), ("Nap", "pull", 16_000, 20)],
    processes: &[
        &["-c", "10", "-q", "default", "-q", "push", "-q", "pull"],
        &["-c", "3", "-q", "push", "-q", "default"],
    ],
};
const APART: Shape = Shape {
    name: "two queues with a process each, the longer one slower",
    queues: &[("Nap", "push", 9_000, 0), ("Nap", "pull", 6_000, 0)],
    processes: &[&["-c", "5", "-q", "push"], &["-c", "10", "-q", "pull"]],
};

fn is_long() -> bool {
    #[expect(clippy::disallowed_methods, reason = "whoever wants figures says so by it")]
    std::env::var("WEIR_DRAIN").is_ok_and(|it| it == "long")
}

/// Pushes jobs until `ended`.
fn push_jobs(redis: &RedisServer, shape: &Shape, ended: &AtomicBool) {
    let coming: Vec<_> = shape.queues.iter().filter(|(.., rate)| *rate > 0).collect();
    while !coming.is_empty() && !ended.load(Ordering::Relaxed) {
        for (class, queue, _, rate) in &coming {
            let few = if is_long() { 1 } else { RATE_SHARE };
            push(redis, queue, class, (rate / BUNCHES_PER_SECOND / few).max(1), 0.0);
        }
        std::thread::sleep(BUNCH);
    }
}

fn waiting(redis: &RedisServer, shape: &Shape) -> u64 {
    let lengths = shape.queues.iter().map(|(_, queue, ..)| -> u64 {
        let key = format!("queue:{queue}");
        ::redis::cmd("LLEN").arg(key).query(&mut redis.client()).expect("a length")
    });
    lengths.max().unwrap_or_default()
}

/// Returns doctor's verdict while jobs are pushed.
fn verdict(redis: &RedisServer) -> Value {
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let window = if is_long() { "10s" } else { "2s" };
    json(&["--redis", &url, "--window", window])["verdict"].clone()
}

/// Returns the seconds until at most one job per thread waits.
fn seconds_until_drained(redis: &RedisServer, shape: &Shape) -> f64 {
    let from = now(redis);
    wait_until("it is worked off", || waiting(redis, shape) <= 10);
    now(redis) - from
}

fn drain(shape: &Shape) {
    let Some(redis) = RedisServer::start() else { return };
    for (class, queue, jobs, _) in shape.queues.iter().filter(|(.., jobs, _)| *jobs > 0) {
        push(&redis, queue, class, *jobs, 900.0);
    }
    let start = |arguments: &&[&str]| Sidekiq::start(&redis, arguments);
    let Some(_running) = shape.processes.iter().map(start).collect::<Option<Vec<_>>>() else {
        return;
    };
    let ended = AtomicBool::new(false);
    let (verdict, truth) = std::thread::scope(|scope| {
        scope.spawn(|| push_jobs(&redis, shape, &ended));
        let verdict = verdict(&redis);
        let truth = is_long().then(|| seconds_until_drained(&redis, shape));
        ended.store(true, Ordering::Relaxed);
        (verdict, truth)
    });
    let said = seconds(&verdict["drain"]["after"]);
    let said = said.unwrap_or_else(|| panic!("{}: no time to drain: {verdict:#}", shape.name));
    let between = [&verdict["between"]["shortest"], &verdict["between"]["longest"]].map(seconds);
    if let Some(truth) = truth {
        eprintln!("{}: {said:.1} s said {between:.1?}, {truth:.1} s true", shape.name);
    }
}

fn seconds(duration: &Value) -> Option<f64> {
    Some(duration["secs"].as_f64()? + duration["nanos"].as_f64()? / 1e9)
}

#[test]
fn single_queue_without_arrivals_has_a_time_to_drain() {
    drain(&STEADY);
}

#[test]
fn mixed_job_durations_have_a_time_to_drain() {
    drain(&HEAVY);
}

#[test]
fn backlog_behind_other_queues_has_a_time_to_drain() {
    drain(&SEVERAL);
}

#[test]
fn queues_with_dedicated_processes_have_a_time_to_drain() {
    drain(&APART);
}
