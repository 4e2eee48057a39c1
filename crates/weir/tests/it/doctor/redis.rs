//! What can be wrong with Sidekiq and its Redis.

use weir_sidekiq::READ_ONLY_ACL;

use super::json;
use super::page::{Row, row, row_in_time, rows};
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, now, push};
use super::tracer::Tracer;
use crate::process::wait_until;

/// Looks of a third of a second each: a heartbeat takes five to ten seconds.
const LOOKS_MAX: usize = 150;
/// Before one computes.
const CORES_IDLE_MIN: f64 = 1.8;

const SLOW: &str = "local n = 0 for i = 1, 6e7 do n = n + i end";
/// More than people put up with.
const FORK_MICROS: u32 = 600_000;

pub(super) fn provoke_all() -> Option<Vec<Row>> {
    let mut rows = provoke_without_sidekiq()?;
    rows.extend(provoke_with_sidekiq()?);
    rows.extend(provoke_failing_jobs()?);
    Some(rows)
}

fn provoke_without_sidekiq() -> Option<Vec<Row>> {
    let redis = RedisServer::start()?;
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let arguments = ["--redis", &url, "--window", "300ms"];
    push(&redis, "default", "Wait", 40, 900.0);
    let failed = r#"{"class":"Deliver","args":[],"error_class":"Net::ReadTimeout"}"#;
    let fill = "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], ARGV[2] + i, ARGV[3] .. string.rep(' ', i % 500) .. i) end";
    let (later, before) = (now(&redis) + 3_600.0, now(&redis) - 9_500.0);
    let in_milliseconds = format!("{:.0}", later * 1e3);
    let (later, before) = (format!("{later}"), format!("{before}"));
    redis.run(&[
        &["EVAL", fill, "1", "retry", "10500", &later, failed],
        &["EVAL", fill, "1", "dead", "9500", &before, failed],
        &["EVAL", fill, "1", "schedule", "600", &in_milliseconds, r#"{"class":"Later","args":[]}"#],
        &["EVAL", "for i = 1, 400 do redis.call('SET', 'cache:' .. i, 'x', 'EX', 999) end", "0"],
        &["EVAL", SLOW, "0"],
        &["EVAL", SLOW, "0"],
        &["CONFIG", "SET", "maxmemory-policy", "volatile-lru"],
    ]);
    let used: String = ::redis::cmd("INFO").arg("memory").query(&mut redis.client()).expect("told");
    let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a figure");
    let used: u64 = used.trim().parse().expect("a number");
    redis.run(&[&["CONFIG", "SET", "maxmemory", &(used / 100 * 104).to_string()]]);
    let cause = "a Redis with `--save \"\"` and no append-only file";
    let mut all = rows(&json(&arguments), &[("redis-persistence", cause)]);
    redis.run(&[&["SET", "weir:confirm", "memory 0"]]);
    let advice = json(&arguments);
    all.extend(rows(
        &advice,
        &[
            ("no-process", "jobs and no Sidekiq"),
            ("redis-eviction", "`CONFIG SET maxmemory-policy volatile-lru`"),
            ("redis-durability", "the same, and Weir keeps its jobs there"),
            ("redis-memory", "`maxmemory` just above what is in use"),
            ("retry-flood", "10,500 jobs in the retry set"),
            ("dead-flood", "9,500 jobs in the dead set, a third of them of the last hour"),
            ("far-scheduled", "600 jobs scheduled for a time in milliseconds"),
            ("redis-slow-log", "a script that runs for some tenths of a second, twice"),
            ("redis-shared", "400 keys that expire beside Sidekiq's"),
        ],
    ));
    let acl = READ_ONLY_ACL.replace("+zcard ", "");
    let mut user = vec!["ACL", "SETUSER", "weir", "reset", "on", ">hunter2", "~*"];
    user.extend(acl.split_whitespace());
    redis.run(&[&user]);
    let url = format!("redis://weir@127.0.0.1:{}", redis.port);
    let folder = tempfile::tempdir().expect("a folder");
    let password = folder.path().join("password");
    std::fs::write(&password, "hunter2\n").expect("written");
    let password = password.display().to_string();
    let way_in = ["--redis", &url, "--redis-password-file", &password, "--window", "10ms"];
    let advice = json(&way_in);
    all.extend(rows(&advice, &[("unseen", "a user of Redis who may not ask `ZCARD`")]));
    let elsewhere = format!("redis://127.0.0.1:{}/1", redis.port);
    let cause = "`--redis redis://127.0.0.1:6379/1` where Sidekiq is in database 0";
    all.extend(rows(&json(&["--redis", &elsewhere, "--window", "10ms"]), &[("no-sidekiq", cause)]));
    let away = json(&["--redis", "redis://127.0.0.1:1", "--window", "10ms"]);
    all.extend(rows(
        &away,
        &[("unreachable", "`--redis redis://127.0.0.1:6379`, where nothing listens")],
    ));
    all.extend(provoke_refusals()?);
    all.extend(provoke_expiry()?);
    all.extend(provoke_slow_fork());
    Some(all)
}

/// Sets an expiry for a queue.
fn provoke_expiry() -> Option<Vec<Row>> {
    let redis = RedisServer::start()?;
    let job = r#"{"class":"Post","args":[],"jid":"b4a577edbccf1d805744efa9","enqueued_at":1}"#;
    // 30 days and two hours, of which minutes may pass before the sample.
    redis.run(&[
        &["SADD", "queues", "default"],
        &["LPUSH", "queue:default", job],
        &["EXPIRE", "queue:default", "2600000"],
    ]);
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let cause = "`EXPIRE queue:default 2600000`, as a script sets it that removes old keys";
    Some(rows(&json(&["--redis", &url, "--window", "10ms"]), &[("expiring-queue", cause)]))
}

/// Makes a fork take as long as it does for a Redis of some 10 GB.
fn provoke_slow_fork() -> Option<Row> {
    let redis = RedisServer::start()?;
    let said = |section: &str, field: &str| {
        let info: String =
            ::redis::cmd("INFO").arg(section).query(&mut redis.client()).expect("told");
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.expect("a figure").parse::<u32>().expect("a number")
    };
    let _tracer = Tracer::delay_forks(said("server", "process_id"), FORK_MICROS)?;
    redis.run(&[&["BGSAVE"]]);
    wait_until("it has forked", || said("stats", "latest_fork_usec") > 0);
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let cause = "`BGSAVE`, and `strace -e inject=clone:delay_enter=600000`";
    rows(&json(&["--redis", &url, "--window", "10ms"]), &[("redis-fork", cause)]).pop()
}

/// Provokes a Redis that does not respond, and one that rejects writes.
fn provoke_refusals() -> Option<Vec<Row>> {
    let redis = RedisServer::start()?;
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let arguments = ["--redis", &url, "--window", "10ms"];
    redis.run(&[&["REPLICAOF", "127.0.0.1", "1"]]);
    let cause = "`REPLICAOF` in a Redis whose Sidekiq has not heard of it";
    let mut all = rows(&json(&arguments), &[("redis-replica", cause)]);
    let mut held = redis.client();
    let one: Result<(), _> =
        ::redis::cmd("CONFIG").arg(&["SET", "maxclients", "1"]).query(&mut held);
    one.expect("set");
    let cause = "`CONFIG SET maxclients 1`, and that one connected";
    all.extend(rows(&json(&arguments), &[("redis-refuses", cause)]));
    Some(all)
}

/// Pushes jobs of a class that the application does not have, for example of a newer release.
fn provoke_failing_jobs() -> Option<Vec<Row>> {
    let redis = RedisServer::start()?;
    redis.run(&[&["CONFIG", "SET", "appendonly", "yes"]]);
    let _sidekiq = Sidekiq::start(&redis, &["-c", "2", "-q", "default"])?;
    push(&redis, "default", "OfTomorrow", 60, 0.0);
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let cause = "60 jobs of a class that Sidekiq's release does not have";
    // Sidekiq counts with its heartbeats.
    Some(rows(&json(&["--redis", &url, "--window", "12s"]), &[("failing-jobs", cause)]))
}

fn provoke_with_sidekiq() -> Option<Vec<Row>> {
    let redis = RedisServer::start()?;
    redis.run(&[&["CONFIG", "SET", "appendonly", "yes"]]);
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let arguments = ["--redis", &url, "--window", "300ms", "--pushes", "default,fasp"];
    push(&redis, "default", "Wait", 1_500, 900.0);
    push(&redis, "mailers", "Wait", 40, 3_700.0);
    push(&redis, "pull", "Wait", 20, 900.0);
    let queues = ["-c", "2", "-q", "default", "-q", "pull", "-q", "mailer", "-q", "scheduler"];
    let busy = Sidekiq::start(&redis, &queues)?;
    let clock = Sidekiq::start(&redis, &["-c", "1", "-q", "scheduler"])?;
    let mut all = rows(
        &json(&arguments),
        &[
            ("unserved-queue", "jobs in `mailers`, a Sidekiq that serves `mailer`"),
            ("scheduler", "two Sidekiqs with `-q scheduler`"),
            (
                "starving-queue",
                "jobs in `pull`, whose only Sidekiq has 1,500 in `default` before it",
            ),
            ("backlog", "1,500 jobs that are a quarter of an hour old"),
            ("backlog-made-of", "the same, all for one remote host"),
            ("upgrade-guard", "`--pushes default,fasp`, and no Sidekiq serves `fasp`"),
        ],
    );
    clock.signal("-TSTP");
    clock.wait_until_quiet(&redis);
    clock.set_age(&redis, 3_600.0);
    let cause = "`kill -TSTP` of a Sidekiq that has run for an hour";
    all.push(row_in_time(&arguments, "quiet-process", cause, LOOKS_MAX).expect("it was found"));
    busy.wait_until_busy(&redis, 2);
    busy.set_age(&redis, 3_700.0);
    let cause = "two jobs that a Sidekiq of two threads has had for an hour";
    all.extend(rows(&json(&arguments), &[("stuck-threads", cause)]));
    clock.set_clock_back(&redis, 7_200.0);
    let cause = "a Sidekiq whose heartbeat is two hours behind the clock of Redis";
    all.extend(rows(&json(&arguments), &[("host-clock", cause)]));
    busy.signal("-KILL");
    // Its heartbeat expires after a minute; the test takes the minute away, not the ghost.
    redis.run(&[&["PEXPIRE", &busy.identity, "1"]]);
    let cause = "`kill -KILL` of a Sidekiq";
    all.push(row_in_time(&arguments, "ghost-process", cause, LOOKS_MAX).expect("it was found"));
    let due = format!("{}", now(&redis) - 300.0);
    redis.run(&[&["ZADD", "schedule", &due, r#"{"class":"Wait","args":[]}"#]]);
    let cause = "a job that is due, and a Sidekiq that is quiet";
    all.push(row_in_time(&arguments, "overdue-jobs", cause, LOOKS_MAX).expect("it was found"));

    all.extend(provoke_idle_cores(&redis, &arguments));
    Some(all)
}

/// Provokes a finding that needs an idle core; returns None if the machine is busy.
fn provoke_idle_cores(redis: &RedisServer, arguments: &[&str]) -> Option<Row> {
    let machine = &json(arguments)["observation"]["machine"]["known"];
    let is_free = machine["cores_idle"].as_f64().is_some_and(|idle| idle >= CORES_IDLE_MIN);
    let row = is_free.then(|| provoke_busy_core(redis, arguments)).flatten();
    if row.is_none() {
        eprintln!("skipped: no core was idle, so idle-cores keeps the row that it has");
    }
    row
}

fn provoke_busy_core(redis: &RedisServer, arguments: &[&str]) -> Option<Row> {
    push(redis, "spin", "Spin", 2, 0.0);
    let spinning = Sidekiq::start(redis, &["-c", "2", "-q", "spin"])?;
    spinning.wait_until_busy(redis, 2);
    let cause = "two threads of a Sidekiq that compute, and an idle core";
    // Two heartbeats, of which a process without an idle thread may miss one: only a process that was seen running
    // gets a line.
    let advice = json(&["--redis", arguments[1], "--window", "25s"]);
    // A machine that others use as well may never have an idle core: then the row is left as it was.
    row(&advice, "idle-cores", cause)
}
