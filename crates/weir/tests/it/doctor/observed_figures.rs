//! Problems that figures of Sidekiq and Redis show: classes that fail, sizes, memory, distances, connections.

use std::time::Duration;

use serde_json::Value;

use super::follow::find;
use super::json;
use super::meanwhile::meanwhile;
use super::page::{Row, show};
use super::redis::{start_with_file, url};
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, now, push};
use super::unexplained::set_yesterday;
use crate::process::wait_until;

/// A process on another machine.
const FAR_AWAY: &str = r#"{"hostname":"worker-2","started_at":1700000000,"pid":4711,"tag":"","concurrency":5,"queues":["default"],"labels":[],"identity":"worker-2:4711:0123456789ab"}"#;

#[test]
fn problems_that_figures_show_are_found() {
    let Some(redis) = start_with_file("") else { return };
    make_healthy(&redis);
    let mut rows = vec![provoke_large_payloads(&redis), provoke_clients(&redis)];
    rows.push(provoke_round_trip(&redis));
    rows.extend(provoke_failing_class());
    rows.extend(provoke_growth());
    rows.extend(provoke_idle_redis());
    show(&rows);
}

/// Pushes jobs whose argument has 150 kB.
fn provoke_large_payloads(redis: &RedisServer) -> Row {
    let text = "x".repeat(150_000);
    let job = format!(
        r#"{{"class":"Import","args":["{text}"],"queue":"imports","jid":"0123456789abcdef01234567"}}"#
    );
    let words: Vec<&str> =
        ["LPUSH", "queue:imports"].into_iter().chain([job.as_str(); 120]).collect();
    redis.run(&[&["SADD", "queues", "imports"], &words]);
    let cause = "120 jobs with an argument of 150 kB";
    let advice = json(&["--redis", &url(redis), "--window", "300ms"]);
    let found = find(&advice, "large-payloads", cause, "jobs of Import");
    let output = found.run();
    let bytes: u64 = output.trim().parse().expect("a number");
    assert!(bytes > 120 * 150_000, "{output}");
    redis.run(&[&["DEL", "queue:imports"], &["SREM", "queues", "imports"]]);
    found.shown(&output, output.trim())
}

fn provoke_clients(redis: &RedisServer) -> Row {
    redis.run(&[&["CONFIG", "SET", "maxclients", "40"]]);
    let _clients: Vec<_> = (0..34).map(|_| redis.client()).collect();
    let arguments = ["--redis", &url(redis), "--window", "300ms"];
    let cause = "`CONFIG SET maxclients 40`, and 34 connections of a program";
    let found = find(&json(&arguments), "redis-clients", cause, "of maxclients (40)");
    found.run();
    found.healed_in_time(&arguments)
}

fn provoke_round_trip(redis: &RedisServer) -> Row {
    let identity = "worker-2:4711:0123456789ab";
    let beat = format!("{}", now(redis));
    let fields =
        ["info", FAR_AWAY, "busy", "0", "beat", &beat, "quiet", "false", "rtt_us", "120000"];
    redis.run(&[
        &["SADD", "processes", identity],
        &[&["HSET", identity], &fields[..]].concat(),
        &["EXPIRE", identity, "60"],
    ]);
    let cause = "a Sidekiq on another machine, which measures round trips of 120 ms";
    let advice = json(&["--redis", &url(redis), "--window", "300ms"]);
    let found = find(&advice, "redis-round-trip", cause, "takes 120 ms from worker-2");
    redis.run(&[&["DEL", identity], &["SREM", "processes", identity]]);
    found.not_followed("there is no such machine; the command measures the way from it")
}

/// Lets all jobs of a class fail, a fifth of all jobs, after a day with few failures.
fn provoke_failing_class() -> Option<Row> {
    let redis = RedisServer::start()?;
    make_healthy(&redis);
    set_yesterday(&redis, 100_000, 100);
    let _sidekiq = Sidekiq::start(&redis, &["-c", "2", "-q", "default"])?;
    push(&redis, "default", "OfTomorrow", 60, 0.0);
    push(&redis, "default", "Nap", 240, 0.0);
    let url = url(&redis);
    let arguments = ["--redis", &url, "--window", "300ms"];
    wait_until("Sidekiq has counted all of them", || processed(&json(&arguments)) == Some(300));
    let cause =
        "all 60 jobs of a class fail, of 300 that ran today; yesterday, one in a thousand failed";
    let found = find(&json(&arguments), "failing-class", cause, "jobs of OfTomorrow");
    let output = found.run();
    Some(found.shown(&output, "uninitialized constant OfTomorrow"))
}

fn processed(advice: &Value) -> Option<u64> {
    advice["observation"]["jobs"]["known"]["processed"]["known"].as_u64()
}

/// Lets the heartbeats of a process report more memory each time, as one that leaks does.
fn provoke_growth() -> Option<Row> {
    let redis = RedisServer::start()?;
    make_healthy(&redis);
    let sidekiq = Sidekiq::start(&redis, &["-c", "2", "-q", "default"])?;
    sidekiq.set_age(&redis, 3_600.0);
    let mut sizes = (300_000_u64..).step_by(10_000);
    let mut client = redis.client();
    let grow = || {
        let kilobytes = sizes.next().expect("a number");
        let mut set = ::redis::cmd("HSET");
        set.arg(&sidekiq.identity).arg("rss").arg(kilobytes).exec(&mut client).expect("set");
        std::thread::sleep(Duration::from_millis(50));
    };
    let advice = meanwhile(grow, || json(&["--redis", &url(&redis), "--window", "2s"]));
    let cause = "a Sidekiq whose heartbeats report some hundred megabytes more each second";
    let found = find(&advice, "growing-process", cause, " more than ");
    let output = found.run();
    Some(found.shown(&output, "VmRSS"))
}

/// Lets jobs wait for threads, while Redis has nothing to do.
fn provoke_idle_redis() -> Option<Row> {
    let redis = RedisServer::start()?;
    make_healthy(&redis);
    push(&redis, "default", "Wait", 200, 120.0);
    let _sidekiq = Sidekiq::start(&redis, &["-c", "2", "-q", "default"])?;
    let cause = "200 jobs that wait for threads, and a Redis that has nothing to do";
    let advice = json(&["--redis", &url(&redis), "--window", "1s"]);
    let found = find(&advice, "redis-cpu", cause, "are to spare");
    Some(found.not_followed("it says what would not help"))
}
