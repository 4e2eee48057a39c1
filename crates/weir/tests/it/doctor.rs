//! `weir doctor` and `weir plan` as processes, on real servers.

#![allow(clippy::unwrap_used, reason = "servers that other crates' tests start as well")]
#![allow(clippy::print_stderr, reason = "what is skipped says so")]

mod drain;
mod follow;
mod healthy;
mod jobs;
mod killed;
mod limited;
mod meanwhile;
mod observe;
mod observed_figures;
mod page;
mod persistence;
#[allow(dead_code, reason = "the tests of weir-observe change its settings as well")]
#[path = "../../../weir-observe/tests/it/pgbouncer.rs"]
pub(crate) mod pgbouncer;
mod places;
mod plan;
mod pooler;
mod postgres;
mod postgres_connections;
mod postgres_locks;
#[allow(dead_code, reason = "the tests of weir-observe read its log as well")]
#[path = "../../../weir-observe/tests/it/postgres_server.rs"]
pub(crate) mod postgres_server;
mod postgres_settings;
mod postgres_tables;
mod redis;
mod redis_refusals;
#[allow(dead_code, reason = "the tests of weir-sidekiq start Sentinels and use sockets as well")]
#[path = "../../../weir-sidekiq/tests/it/redis_server.rs"]
pub(crate) mod redis_server;
mod set_aside;
mod shards;
pub(crate) mod sidekiq;
mod threads_hurt;
mod tracer;
mod unexplained;
mod unnoticed;
mod walk;
mod watch;
mod weir_parts;

use std::process::Output;

use serde_json::Value;

use self::redis_server::RedisServer;
use crate::process::output_of;
use crate::weir::program;

/// Runs `weir doctor`.
fn run(arguments: &[&str]) -> Output {
    output_of(program().arg("doctor").args(arguments))
}

/// Returns its JSON output.
fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {error}"))
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

#[test]
fn missing_and_invalid_sources_are_usage_errors() {
    assert_eq!(code(&run(&[])), 64);
    for (arguments, problem, expected) in [
        (&["--redis", "localhost"][..], "must begin with", 64),
        (&["--redis", "http://localhost"], "must begin with", 64),
        (&["--redis", "redis://:hunter2@localhost"], "contains a password", 64),
        (&["--postgres", "postgres://u:hunter2@localhost/x"], "contains a password", 64),
        (&["--postgres", "mysql://localhost/x"], "must begin with", 64),
        (
            &["--redis", "redis://localhost", "--redis-password-env", "NO_SUCH"],
            "NO_SUCH is not set",
            2,
        ),
        (&["--redis", "redis://localhost", "--redis-ca", "ca.pem"], "write rediss://", 64),
        (
            &["--postgres", "postgres://localhost/x", "--postgres-ca", "ca.pem"],
            "sslmode=verify",
            64,
        ),
    ] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(&output), expected, "{error}");
        assert!(error.contains(problem) && !error.contains("hunter2"), "{error}");
        let monitored = run(&[arguments, &["--nagios"]].concat());
        assert_eq!(code(&monitored), 3);
        assert!(String::from_utf8_lossy(&monitored.stdout).starts_with("WEIR UNKNOWN - "));
    }
}

#[test]
fn unreachable_source_is_the_first_finding_and_critical() {
    let arguments = ["--redis", "redis://127.0.0.1:1", "--window", "1ms"];
    let output = run(&arguments);
    assert_eq!(code(&output), 1);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("Redis 127.0.0.1:1: it does not respond: nothing listens"), "{text}");
    assert!(text.contains("CRITICAL  Redis 127.0.0.1:1  [unreachable]"), "{text}");
    assert!(text.contains("  next    check that it is running"), "{text}");
    let monitored = run(&[&arguments[..], &["--nagios"]].concat());
    assert_eq!(code(&monitored), 2);
    let text = String::from_utf8_lossy(&monitored.stdout);
    assert!(text.starts_with("WEIR CRITICAL - Redis 127.0.0.1:1: "), "{text}");
}

#[test]
fn nagios_output_has_line_figures_and_exit_code() {
    let Some(redis) = RedisServer::start() else { return };
    redis.run(&[
        &["CONFIG", "SET", "appendonly", "yes"],
        &["SADD", "queues", "default"],
        &["LPUSH", "queue:default", r#"{"class":"A|B","args":[],"enqueued_at":1700000000}"#],
    ]);
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let output = run(&["--redis", &url, "--window", "10ms", "--nagios"]);
    assert_eq!(code(&output), 2);
    let text = String::from_utf8_lossy(&output.stdout);
    let (line, figures) = text.lines().next().and_then(|it| it.split_once('|')).expect("figures");
    assert!(line.starts_with("WEIR CRITICAL - Sidekiq: 1 job waits and no"), "{line}");
    assert!(figures.starts_with(" findings=1 backlog=1 latency="), "{figures}");
}
