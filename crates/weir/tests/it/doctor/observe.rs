//! `[observe]`: `weir up` beside a Sidekiq that knows nothing of it.

use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::Value;

use super::postgres_server::PostgresServer;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, push};
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

/// Everything that a test waits for comes with a look; a source that fails is asked again soon.
const PACE: &str = "interval = \"1s\"\npools = [\"web=2x5\"]\npushes = [\"default\", \"fasp\"]\n\
                    [observe.limits]\nadvanced.retry_max = \"2s\"\nadvanced.look_timeout = \"20s\"\n";

fn settings(redis: u16, postgres: &str) -> String {
    format!("[observe]\n{PACE}[[observe.redis]]\nurl = \"redis://127.0.0.1:{redis}/0\"\n{postgres}")
}

pub(super) fn metrics(console: SocketAddr) -> String {
    let (status, text) = get(console, "/metrics", "");
    assert_eq!(status, "HTTP/1.1 200 OK");
    text
}

/// Returns the value of a series such as `queue_size{queue="push"}`.
pub(super) fn metric_value(text: &str, series: &str) -> Option<f64> {
    let name = format!("weir_observe_{series} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).and_then(|value| value.parse().ok())
}

pub(super) fn wait_for_value(console: SocketAddr, series: &str, expected: f64) {
    wait_until(&format!("{series} is {expected}"), || {
        metric_value(&metrics(console), series) == Some(expected)
    });
}

fn doctor(weir: &Weir) -> Value {
    let (status, text) = get(weir.console(), "/v1/doctor", "");
    assert_eq!(status, "HTTP/1.1 200 OK", "{text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn unmodified_sidekiq_is_monitored() {
    let Some(redis) = RedisServer::start() else { return };
    let Some(postgres) = PostgresServer::start(&["max_connections=40"]) else { return };
    redis.run(&[&["CONFIG", "SET", "appendonly", "yes"]]);
    let queues = ["-c", "3", "-q", "default", "-q", "mailer"];
    let Some(_sidekiq) = Sidekiq::start(&redis, &queues) else { return };
    push(&redis, "default", "Wait", 43, 5.0);
    push(&redis, "mailers", "Wait", 7, 3_700.0);
    let _web = postgres.client("postgres", "puma");
    let url = postgres.url("postgres");
    let database = format!("[observe.postgres]\nurl = \"{url}\"\n");
    let weir = Site::new(&settings(redis.port, &database)).start();
    let console = weir.console();

    // Three threads have taken three of the 43.
    wait_for_value(console, "threads_busy", 3.0);
    wait_for_value(console, "queue_size{queue=\"default\"}", 40.0);
    let text = metrics(console);
    let shard = format!("redis=\"127.0.0.1:{}\"", redis.port);
    for (series, expected) in [
        ("queue_size{queue=\"mailers\"}".to_owned(), 7.0),
        ("queue_served_by{queue=\"mailers\"}".to_owned(), 0.0),
        ("queue_served_by{queue=\"default\"}".to_owned(), 1.0),
        ("processes{state=\"serving\"}".to_owned(), 1.0),
        ("threads".to_owned(), 3.0),
        ("connections{service=\"web\",state=\"idle\"}".to_owned(), 1.0),
        ("connections_max".to_owned(), 40.0),
        ("findings{severity=\"critical\"}".to_owned(), 1.0),
        ("rule_findings{rule=\"unserved-queue\",severity=\"critical\"}".to_owned(), 1.0),
        (format!("redis_persisting{{{shard}}}"), 1.0),
        (format!("source_up{{source=\"redis\",name=\"127.0.0.1:{}\"}}", redis.port), 1.0),
        ("left_out{limit=\"metrics_queues_max\"}".to_owned(), 0.0),
    ] {
        assert_eq!(metric_value(&text, &series), Some(expected), "{series}\n{text}");
    }
    let latency =
        metric_value(&text, "queue_latency_seconds{queue=\"mailers\"}").expect("a latency");
    assert!((3_700.0..3_800.0).contains(&latency), "{latency}");
    assert!(
        metric_value(&text, &format!("redis_memory_bytes{{{shard}}}")).expect("memory") > 100_000.0
    );
    assert!(
        metric_value(&text, &format!("redis_operations_total{{{shard}}}")).expect("commands")
            > 50.0
    );

    assert_reported_everywhere(&weir);
    assert!(weir.stop().success());
}

/// Checks that the admin API, the observed pages and the first page report the same as `weir doctor --json`.
fn assert_reported_everywhere(weir: &Weir) {
    let said = doctor(weir);
    let line = said["line"].as_str().expect("a line");
    assert!(line.contains("did you mean \"mailers\"?"), "{line}");
    assert_eq!(said["observation"]["jobs"]["known"]["queues"].as_array().map(Vec::len), Some(3));
    assert_eq!(said["sources"].as_array().map(Vec::len), Some(2));
    for (page, shows) in [
        ("/doctor", "-q mailers"),
        ("/plan", "connection pools fit the database"),
        ("/postgres", "CREATE EXTENSION pg_stat_statements"),
        ("/postgres", ">web</span>"),
        ("/redis", "INFO"),
    ] {
        let (status, text) = get(weir.console(), page, "");
        assert_eq!(status, "HTTP/1.1 200 OK", "{page}: {text}");
        assert!(text.contains(shows), "{page} does not show {shows}: {text}");
    }
    let (_, overview) = get(weir.console(), "/", "");
    assert!(overview.contains("queue mailers: 7 jobs wait"), "{overview}");
}

#[test]
fn queues_of_one_name_are_distinguished_by_redis() {
    let (Some(one), Some(other)) = (RedisServer::start(), RedisServer::start()) else { return };
    push(&one, "push", "Wait", 4, 5.0);
    push(&other, "push", "Wait", 9, 5.0);
    let second = format!("[[observe.redis]]\nurl = \"redis://127.0.0.1:{}/0\"\n", other.port);
    let weir = Site::new(&settings(one.port, &second)).start();
    let console = weir.console();
    for (redis, length) in [(&one, 4.0), (&other, 9.0)] {
        let shard = format!("redis=\"127.0.0.1:{}\"", redis.port);
        wait_for_value(console, &format!("queue_size{{queue=\"push\",{shard}}}"), length);
        assert_eq!(metric_value(&metrics(console), &format!("threads{{{shard}}}")), Some(0.0));
    }
    let (_, page) = get(console, "/doctor", "");
    for redis in [&one, &other] {
        assert!(page.contains(&format!("Queues of Redis 127.0.0.1:{}", redis.port)), "{page}");
    }
    assert!(weir.stop().success());
}

#[test]
fn lost_source_is_reported_as_unknown_and_recovers() {
    let Some(redis) = RedisServer::start() else { return };
    let Some(postgres) = PostgresServer::start(&[]) else { return };
    push(&redis, "default", "Wait", 4, 5.0);
    let port = redis.port;
    let database = format!("[observe.postgres]\nurl = \"{}\"\n", postgres.url("postgres"));
    let mut weir = Site::new(&settings(port, &database)).start();
    let console = weir.console();
    let up = format!("source_up{{source=\"redis\",name=\"127.0.0.1:{port}\"}}");
    wait_for_value(console, "queue_size{queue=\"default\"}", 4.0);

    drop(redis);
    wait_for_value(console, &up, 0.0);
    weir.wait_for_log("a source cannot be read");
    let text = metrics(console);
    assert!(!text.contains("weir_observe_queue_size{"), "unknown is not zero:\n{text}");
    let failures = up.replace("source_up", "source_failures_total");
    assert!(metric_value(&text, &failures).expect("a count") >= 1.0);
    assert!(metric_value(&text, "connections_max").is_some(), "the others are seen:\n{text}");
    assert_eq!(metric_value(&text, "findings{severity=\"critical\"}"), Some(1.0), "{text}");
    let said = doctor(&weir);
    let findings = said["findings"].as_array().expect("findings");
    let unseen = &findings[0];
    assert_eq!(unseen["rule"], "unreachable", "before all others");
    assert_eq!(unseen["subject"], format!("Redis 127.0.0.1:{port}"));

    let Some(_again) = RedisServer::start_at(port) else { return };
    wait_for_value(console, &up, 1.0);
    weir.wait_for_log("the source can be read again");
    assert!(weir.stop().success());
}

#[test]
fn unresponsive_source_delays_neither_others_nor_shutdown() {
    let Some(postgres) = PostgresServer::start(&[]) else { return };
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let database = format!("[observe.postgres]\nurl = \"{}\"\n", postgres.url("postgres"));
    let settings = settings(port, &database)
        .replace("advanced.look_timeout = \"20s\"", "advanced.look_timeout = \"1s\"");
    let weir = Site::new(&settings).start();
    let up = format!("source_up{{source=\"redis\",name=\"127.0.0.1:{port}\"}}");
    wait_for_value(weir.console(), &up, 0.0);
    assert!(metric_value(&metrics(weir.console()), "connections_max").is_some());
    assert!(weir.stop().success());
}

#[test]
fn no_observe_metrics_without_sources() {
    let weir = Weir::start();
    let (status, text) = get(weir.console(), "/v1/doctor", "");
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert!(text.contains("[observe]"), "{text}");
    assert!(!metrics(weir.console()).contains("weir_observe_"));
    assert!(get(weir.console(), "/doctor", "").0.contains("404"));
    assert!(weir.stop().success());
}

#[test]
fn observing_needs_no_job_server() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, "default", "Wait", 4, 5.0);
    let site = Site::new(&settings(redis.port, ""));
    let weir = site.start_with(|command| {
        command.args(["--only", "console"]);
    });
    wait_for_value(weir.console(), "queue_size{queue=\"default\"}", 4.0);
    assert!(!weir.serves("jobs"));
    assert!(weir.stop().success());
}

#[test]
fn restart_applies_new_observe_settings() {
    let Some(redis) = RedisServer::start() else { return };
    push(&redis, "default", "Wait", 4, 5.0);
    let before = settings(redis.port, "");
    let mut weir = Site::new(&before).start();
    wait_for_value(weir.console(), "queue_size{queue=\"default\"}", 4.0);
    let after =
        before.replace("[observe.limits]\n", "[observe.limits]\nadvanced.metrics_queues_max = 0\n");
    weir.site.write(&format!(
        "{after}[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n[console]\nlisten = \"127.0.0.1:0\"\n"
    ));
    weir.signal(Signal::HUP);
    weir.wait_for_log("observe.limits.advanced.metrics_queues_max changed: needs `weir restart`");
    weir.site.ok(&["restart", "--data-dir", "data"]);
    wait_for_value(weir.console(), "queue_size{queue=\"other\"}", 4.0);
    wait_for_value(weir.console(), "left_out{limit=\"metrics_queues_max\"}", 1.0);
    assert!(weir.stop().success());
}
