//! What can be wrong with a Redis, whoever uses it.

use super::follow::{find, find_in_time, shell};
use super::json;
use super::page::{Row, show};
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, now, push};
use super::tracer::Tracer;
use crate::process::wait_until;

const SLOW: &str = "local n = 0 for i = 1, 6e7 do n = n + i end";
/// More than people put up with.
const FORK_MICROS: u32 = 600_000;
/// Adds as many members to a set, each somewhat longer than the one before.
const FILL: &str = "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], ARGV[2] + i, ARGV[3] .. string.rep(' ', i % 500) .. i) end";

/// Starts one with a file of settings, as a package installs it.
pub(super) fn start_with_file(settings: &str) -> Option<RedisServer> {
    RedisServer::start_with(|folder, _| {
        let file = folder.join("redis.conf");
        std::fs::write(&file, settings).expect("written");
        vec![file.display().to_string()]
    })
}

pub(super) fn url(redis: &RedisServer) -> String {
    format!("redis://127.0.0.1:{}", redis.port)
}

/// Returns a field of `INFO`.
fn info(redis: &RedisServer, section: &str, field: &str) -> u64 {
    let info: String = ::redis::cmd("INFO").arg(section).query(&mut redis.client()).expect("told");
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.expect("a figure").trim().parse().expect("a number")
}

/// Sets `maxmemory` just above what is in use.
fn fill(redis: &RedisServer) {
    let limit = (info(redis, "memory", "used_memory") / 100 * 104).to_string();
    redis.run(&[&["CONFIG", "SET", "maxmemory", &limit]]);
}

#[test]
fn problems_of_redis_are_found_and_their_actions_work() {
    let (Some(with_file), Some(without)) = (start_with_file(""), RedisServer::start()) else {
        return;
    };
    let mut rows = provoke_persistence(&with_file, &without);
    rows.extend(provoke_memory(&with_file));
    rows.extend(provoke_missing_process(&with_file));
    rows.extend(provoke_sets(&without));
    rows.push(provoke_expiry(&without));
    rows.extend(provoke_failing_snapshot().unwrap_or_default());
    rows.extend(provoke_slow_fork());
    show(&rows);
}

/// Provokes a Redis that keeps nothing, for Sidekiq and for Weir, with a file of settings and without.
fn provoke_persistence(with_file: &RedisServer, without: &RedisServer) -> Vec<Row> {
    let mut all = Vec::new();
    let cause = "a Redis with `--save \"\"` and no append-only file";
    let cause_without = "the same without a file of settings, as in a container";
    for (redis, cause) in [(with_file, cause), (without, cause_without)] {
        let url = url(redis);
        let arguments = ["--redis", &url, "--window", "10ms"];
        push(redis, "default", "Nap", 40, 900.0);
        let found = find(&json(&arguments), "redis-persistence", cause, "neither appendonly nor");
        let output = found.run();
        assert!(!output.contains("ERR"), "{output}");
        all.push(found.healed(&json(&arguments)));
    }
    let url = url(with_file);
    let arguments = ["--redis", &url, "--window", "10ms"];
    for (setting, cause, names) in [
        ("appendonly no", "such a Redis, and Weir keeps its jobs there", "appendonly is no"),
        (
            "appendfsync no",
            "`CONFIG SET appendfsync no`, and Weir keeps its jobs there",
            "appendfsync is no",
        ),
    ] {
        let words: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(setting.split(' ')).collect();
        with_file.run(&[&["SET", "weir:confirm", "memory 0"], &words]);
        let found = find(&json(&arguments), "redis-durability", cause, names);
        found.run();
        all.push(found.healed(&json(&arguments)));
    }
    with_file.run(&[&["DEL", "weir:confirm"]]);
    all
}

/// The command lists units of systemd; the text says to start one.
fn provoke_missing_process(redis: &RedisServer) -> Option<Row> {
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "10ms"];
    let cause = "jobs and no Sidekiq";
    let found = find(&json(&arguments), "no-process", cause, "no Sidekiq process has a heartbeat");
    let _sidekiq = Sidekiq::start(redis, &["-c", "2", "-q", "default"])?;
    Some(found.healed_in_time(&arguments))
}

/// Provokes policies of eviction, and a memory that is full.
fn provoke_memory(redis: &RedisServer) -> Vec<Row> {
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "10ms"];
    // Enough that what a connection takes does not matter.
    redis.run(&[&["SETRANGE", "ballast", "10000000", "x"]]);
    let policy = |policy: &str| redis.run(&[&["CONFIG", "SET", "maxmemory-policy", policy]]);
    let mut all = Vec::new();
    policy("allkeys-lru");
    let cause = "`CONFIG SET maxmemory-policy allkeys-lru`";
    let found = find(&json(&arguments), "redis-eviction", cause, "policy is allkeys-lru");
    found.run();
    all.push(found.healed(&json(&arguments)));

    policy("volatile-lru");
    fill(redis);
    let cause = "`volatile-lru`, and `maxmemory` just above what is in use";
    let found = find(&json(&arguments), "redis-eviction", cause, "policy is volatile-lru");
    found.run();
    all.push(found.healed(&json(&arguments)));

    fill(redis);
    let cause = "`maxmemory` just above what is in use";
    let found = find(&json(&arguments), "redis-memory", cause, "of maxmemory");
    found.run();
    all.push(found.healed(&json(&arguments)));
    all
}

/// Provokes sets of jobs that are too large or too far away, slow commands and another user.
fn provoke_sets(redis: &RedisServer) -> Vec<Row> {
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "300ms"];
    let failed = r#"{"class":"Deliver","args":[],"error_class":"Net::ReadTimeout"}"#;
    let (later, before) = (now(redis) + 3_600.0, now(redis) - 9_500.0);
    let in_milliseconds = format!("{:.0}", later * 1e3);
    let (later, before) = (format!("{later}"), format!("{before}"));
    redis.run(&[
        &["EVAL", FILL, "1", "retry", "10500", &later, failed],
        &["EVAL", FILL, "1", "dead", "9500", &before, failed],
        &["EVAL", FILL, "1", "schedule", "600", &in_milliseconds, r#"{"class":"Later","args":[]}"#],
        &["EVAL", "for i = 1, 400 do redis.call('SET', 'cache:' .. i, 'x', 'EX', 999) end", "0"],
        &["EVAL", SLOW, "0"],
        &["EVAL", SLOW, "0"],
    ]);
    let advice = json(&arguments);
    let found = |rule, cause, names| find(&advice, rule, cause, names);
    let far = found(
        "far-scheduled",
        "600 jobs scheduled for a time in milliseconds",
        "due in more than ten years",
    );
    let cause = "a script that runs for some tenths of a second, twice";
    let slow = found("redis-slow-log", cause, "EVAL");
    let (counted, logged) = (far.run(), slow.run());
    let dead = "9,500 jobs in the dead set, a third of them of the last hour";
    vec![
        far.shown(&counted, "600"),
        slow.shown(&logged, "EVAL"),
        found("retry-flood", "10,500 jobs in the retry set", "wait for a retry")
            .not_followed("what makes them fail must be repaired"),
        found("dead-flood", dead, "dead jobs")
            .not_followed("what makes them fail must be repaired"),
        found("redis-shared", "400 keys that expire beside Sidekiq's", "are not Sidekiq's")
            .not_followed("the cache must move to another Redis"),
    ]
}

/// Sets an expiry for a queue.
fn provoke_expiry(redis: &RedisServer) -> Row {
    // 30 days and two hours, of which minutes may pass before the sample.
    redis.run(&[&["EXPIRE", "queue:default", "2600000"]]);
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "10ms"];
    let cause = "`EXPIRE queue:default 2600000`, as a script sets it that removes old keys";
    let found = find(&json(&arguments), "expiring-queue", cause, "its key expires in 30 days");
    found.run();
    found.healed(&json(&arguments))
}

/// Lets a snapshot fail, then removes the folder of Redis.
fn provoke_failing_snapshot() -> Option<Vec<Row>> {
    let redis = RedisServer::start()?;
    push(&redis, "default", "Nap", 40, 1.0);
    std::fs::create_dir(redis.folder().join("dump.rdb")).expect("created");
    redis.run(&[&["CONFIG", "SET", "save", "3600 1"], &["BGSAVE"]]);
    let url = url(&redis);
    let arguments = ["--redis", &url, "--window", "10ms"];
    let cause = "a folder that has the name of the snapshot, and `BGSAVE`";
    let found = find_in_time(&arguments, "redis-persistence", cause, "the last snapshot failed");
    let output = found.run();
    let mut all = vec![found.shown(&output, "Filesystem")];

    std::fs::remove_dir_all(redis.folder()).expect("removed");
    let cause = "the folder of a running Redis was removed";
    let found = find(&json(&arguments), "redis-persistence", cause, "its folder (dir) was removed");
    let here = tempfile::tempdir().expect("a folder");
    found.run_in(here.path(), &[]);
    let output = shell("redis-check-rdb redis-copy.rdb", here.path(), &[]);
    all.push(found.shown(&output, "RDB looks OK!"));
    Some(all)
}

/// Makes a fork take as long as it does for a Redis of some 10 GB.
fn provoke_slow_fork() -> Option<Row> {
    let redis = RedisServer::start()?;
    let process = info(&redis, "server", "process_id").try_into().expect("a process ID");
    let _tracer = Tracer::delay_forks(process, FORK_MICROS)?;
    redis.run(&[&["BGSAVE"]]);
    wait_until("it has forked", || info(&redis, "stats", "latest_fork_usec") > 0);
    let url = url(&redis);
    let cause = "`BGSAVE`, and `strace -e inject=clone:delay_enter=600000`";
    let advice = json(&["--redis", &url, "--window", "10ms"]);
    let found = find(&advice, "redis-fork", cause, "its last fork took");
    let output = found.run();
    Some(found.shown(&output, "save"))
}
