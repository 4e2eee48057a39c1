//! What can be wrong with the jobs and processes of Sidekiq.

use super::follow::{find, find_in_time, try_find};
use super::json;
use super::page::{Row, show};
use super::redis::url;
use super::redis_server::RedisServer;
use super::sidekiq::{Sidekiq, make_healthy, now, push};
use crate::process::wait_until;

/// Before one computes.
const CORES_IDLE_MIN: f64 = 1.8;

#[test]
fn problems_of_sidekiq_are_found_and_their_actions_work() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    let Some(mut rows) = provoke_backlogs(&redis) else { return };
    rows.extend(provoke_idle_cores(&redis));
    rows.extend(provoke_failing_jobs().unwrap_or_default());
    show(&rows);
}

#[test]
fn lines_for_queues_are_followed() {
    let Some(redis) = RedisServer::start() else { return };
    make_healthy(&redis);
    if let Some(rows) = provoke_queue_lines(&redis) {
        show(&rows);
    }
}

/// Provokes queues that no process serves, and a scheduler that two serve: one restart with the printed lines
/// mends all of it.
fn provoke_queue_lines(redis: &RedisServer) -> Option<Vec<Row>> {
    let url = url(redis);
    let arguments =
        ["--redis", &url, "--window", "300ms", "--pushes", "default,scheduler,mailers,fasp,pull"];
    push(redis, "mailers", "Nap", 40, 3_700.0);
    push(redis, "pull", "Nap", 40, 3_700.0);
    let queues = ["-c", "2", "-q", "default", "-q", "mailer", "-q", "scheduler"];
    let web = Sidekiq::start(redis, &queues)?;
    let clock = Sidekiq::start(redis, &["-c", "1", "-q", "scheduler"])?;
    let advice = json(&arguments);
    let found = [
        (
            "unserved-queue",
            "jobs in `mailers`, a Sidekiq that serves `mailer`",
            "serves \"mailer\", to which nothing pushes",
        ),
        ("unserved-queue", "jobs in `pull`, and no Sidekiq serves it", "queue pull"),
        (
            "upgrade-guard",
            "`--pushes default,fasp`, and no Sidekiq serves `fasp`",
            "the application pushes to it and no process serves it",
        ),
        ("scheduler", "two Sidekiqs with `-q scheduler`", "2 processes serve it"),
    ];
    let found = found.map(|(rule, cause, names)| find(&advice, rule, cause, names));
    for it in &found {
        assert!(it.place().contains(&web.identity), "{} keeps its only queue", clock.identity);
        assert_eq!(it.line(), found[0].line(), "one line for all");
    }
    let line: Vec<String> = found[0].line().split(' ').map(str::to_owned).collect();
    web.stop();
    let words: Vec<&str> = ["-c", "2"].into_iter().chain(line.iter().map(String::as_str)).collect();
    let _web = Sidekiq::start(redis, &words)?;
    Some(found.into_iter().map(|it| it.healed_in_time(&arguments)).collect())
}

/// Provokes queues that wait for others, and then processes that are quiet, stuck, late and killed.
fn provoke_backlogs(redis: &RedisServer) -> Option<Vec<Row>> {
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "300ms"];
    push(redis, "default", "Wait", 1_500, 900.0);
    push(redis, "pull", "Nap", 20, 900.0);
    let busy = Sidekiq::start(redis, &["-c", "2", "-q", "default", "-q", "pull"])?;
    let clock = Sidekiq::start(redis, &["-c", "1", "-q", "scheduler"])?;
    let advice = json(&arguments);
    let cause = "1,500 jobs that are a quarter of an hour old";
    let mut all = vec![
        find(&advice, "backlog", cause, "queue default")
            .not_followed("in 0.3 s no rate can be measured"),
        find(&advice, "backlog-made-of", "the same, all for one remote host", "far.example")
            .not_followed("it describes the backlog"),
    ];
    let cause = "jobs in `pull`, whose only Sidekiq has 1,500 in `default` before it";
    let found = find(&advice, "starving-queue", cause, "fetches from default first");
    let _additional = Sidekiq::start_line(redis, found.line())?;
    all.push(found.healed_in_time(&arguments));
    all.extend(provoke_stopped_processes(redis, &busy, &clock));
    Some(all)
}

fn provoke_stopped_processes(redis: &RedisServer, busy: &Sidekiq, clock: &Sidekiq) -> Vec<Row> {
    let url = url(redis);
    let arguments = ["--redis", &url, "--window", "300ms"];
    clock.signal("-TSTP");
    clock.wait_until_quiet(redis);
    clock.set_age(redis, 3_600.0);
    let cause = "`kill -TSTP` of a Sidekiq that has run for an hour";
    let found = find_in_time(&arguments, "quiet-process", cause, "it takes no new jobs (TSTP)");
    let mut all = vec![found.not_followed("it may be a deployment")];
    busy.wait_until_busy(redis, 2);
    busy.set_age(redis, 3_700.0);
    let cause = "two jobs that a Sidekiq of two threads has had for an hour";
    let found = find(&json(&arguments), "stuck-threads", cause, "(Wait) for 1 h");
    // A process that continues forgets the TTIN that it got while it was stopped.
    busy.signal("-CONT");
    found.run();
    wait_until("its log has the threads", || busy.log().contains("worker.rb"));
    all.push(found.shown(&busy.log(), "worker.rb"));
    clock.set_clock_back(redis, 7_200.0);
    let cause = "a Sidekiq whose heartbeat is two hours behind the clock of Redis";
    let found = find(&json(&arguments), "host-clock", cause, "2 h behind that of Redis");
    all.push(found.not_followed("the clock of this machine is right; `timedatectl` needs systemd"));
    busy.signal("-KILL");
    // Its heartbeat expires after a minute; the test takes the minute away, not the ghost.
    redis.run(&[&["PEXPIRE", &busy.identity, "1"]]);
    let cause = "`kill -KILL` of a Sidekiq";
    let found = find_in_time(&arguments, "ghost-process", cause, "has no heartbeat");
    all.push(found.not_followed("a person ended it, not the kernel; `journalctl` needs systemd"));
    all
}

/// Provokes a finding that needs an idle core; returns None if the machine is busy.
fn provoke_idle_cores(redis: &RedisServer) -> Option<Row> {
    let url = url(redis);
    let machine = &json(&["--redis", &url, "--window", "300ms"])["observation"]["machine"]["known"];
    let is_free = machine["cores_idle"].as_f64().is_some_and(|idle| idle >= CORES_IDLE_MIN);
    let row = is_free.then(|| provoke_busy_core(redis, &url)).flatten();
    if row.is_none() {
        eprintln!("skipped: no core was idle, so idle-cores keeps the row that it has");
    }
    row
}

fn provoke_busy_core(redis: &RedisServer, url: &str) -> Option<Row> {
    push(redis, "spin", "Spin", 2, 0.0);
    let spinning = Sidekiq::start(redis, &["-c", "2", "-q", "spin"])?;
    spinning.wait_until_busy(redis, 2);
    let cause = "two threads of a Sidekiq that compute, and an idle core";
    let advice = json(&["--redis", url, "--window", "12s"]);
    // A machine that others use as well may never have an idle core: then the row is left as it was.
    let found = try_find(&advice, "idle-cores", cause, "2 of 2 threads are busy")?;
    // Only a process that was seen running gets a line, and one without an idle thread may miss a heartbeat.
    let row = found.not_followed("the machine has one idle core, and the test needs it");
    Some(row.without_action())
}

/// Pushes jobs of a class that the application does not have, for example of a newer release, and one that is due
/// while no process can move it.
fn provoke_failing_jobs() -> Option<Vec<Row>> {
    let redis = RedisServer::start()?;
    make_healthy(&redis);
    let sidekiq = Sidekiq::start(&redis, &["-c", "2", "-q", "default"])?;
    push(&redis, "default", "OfTomorrow", 60, 0.0);
    let url = url(&redis);
    let cause = "60 jobs of a class that Sidekiq's release does not have";
    // Sidekiq counts with its heartbeats.
    let advice = json(&["--redis", &url, "--window", "12s"]);
    let found = find(&advice, "failing-jobs", cause, "uninitialized constant OfTomorrow");
    let mut all = vec![found.not_followed("the release with that class must be deployed")];

    sidekiq.signal("-TSTP");
    sidekiq.wait_until_quiet(&redis);
    let due = format!("{}", now(&redis) - 300.0);
    redis.run(&[
        &["DEL", "retry"],
        &["ZADD", "schedule", &due, r#"{"class":"Nap","args":[],"queue":"default"}"#],
    ]);
    let arguments = ["--redis", &url, "--window", "300ms"];
    let cause = "a job that is due, and a Sidekiq that is quiet";
    let found =
        find_in_time(&arguments, "overdue-jobs", cause, "1 job is due, the first for 5 min");
    sidekiq.stop();
    // The text says that no process runs that is not quiet.
    let _new = Sidekiq::start(&redis, &["-c", "2", "-q", "default"])?;
    all.push(found.healed_in_time(&arguments));
    Some(all)
}
