//! What must not mislead the autopilot: a clock that is set, a Redis that does not reply, a process that does not end.

use std::fs;
use std::path::Path;

use rustix::process::Pid;

use super::sidekiq_class::{ON, WORKER, is_limited, servers, serving, wait_for_sidekiq};
use super::{Workers, database, journal, json, limit, site, status, wait_for_limit};
use crate::process::wait_until;
use crate::weir::{Weir, is_running};

/// Where Debian installs libfaketime.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// Returns when the limit of a type ends.
fn until(weir: &Weir, class: &str) -> Option<f64> {
    let status = status(weir);
    let limits = status["limits"].as_array().expect("a list");
    limits.iter().find(|limit| limit["class"] == class)?["until"].as_f64()
}

#[test]
fn a_clock_that_is_set_changes_no_limit() {
    let Some(postgres) = database() else { return };
    if !Path::new(FAKETIME).exists() {
        return eprintln!("skipped: there is no {FAKETIME} (apt-get install libfaketime)");
    }
    let site = site(&postgres.url("postgres"), "on", "");
    let clock = site.path().join("clock");
    fs::write(&clock, "+0s\n").expect("written");
    let weir = site.start_with(|command| {
        command.env("LD_PRELOAD", FAKETIME).env("FAKETIME_TIMESTAMP_FILE", &clock);
        command.env("FAKETIME_CACHE_DURATION", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    });
    let _workers = Workers::start(&weir, &postgres);
    wait_for_limit(&weir);
    // Shorter than the step of the clock.
    json(&weir, &["autopilot", "override", "3", "--class", "Mail", "--for", "5m"]);
    let mut end = until(&weir, "Mail").expect("a limit");
    for step in [600.0, -1_200.0] {
        let ahead = if step > 0.0 { "+600s" } else { "-600s" };
        fs::write(&clock, format!("{ahead}\n")).expect("written");
        wait_until("the end has moved with the clock", || {
            until(&weir, "Mail").is_some_and(|now| (now - end - step).abs() < 60.0)
        });
        end += step;
        let renewed = until(&weir, "Hog").expect("still limited");
        wait_until("the other limit is renewed", || {
            limit(&weir) == Some(0) && until(&weir, "Hog").is_some_and(|until| until != renewed)
        });
    }
    let returned = |it: &String| it.starts_with("returned a step");
    assert!(!journal(&weir, "decision").iter().any(returned), "it had data all the time");
    let cleared = weir.site.run(&["jobs", "clear", "default", "--yes", "--data-dir", "data"]);
    assert!(cleared.status.success(), "{}", String::from_utf8_lossy(&cleared.stderr));
    wait_until("the limit has ended", || limit(&weir).is_none());
}

#[test]
fn limits_of_sidekiq_end_while_redis_does_not_reply() {
    const JOBS: usize = 160;
    let Some(servers) = servers() else { return };
    let weir = servers.site(ON).start();
    wait_for_sidekiq(&weir);
    servers.push(&["Hog", "Mail"], JOBS);
    wait_until("it is limited", || is_limited(&weir, "Hog"));
    servers.redis.signal("STOP");
    wait_until("the problem is shown", || {
        status(&weir)["problem"].as_str().is_some_and(|it| it.contains("Redis"))
    });
    let decided = journal(&weir, "decision").len();
    wait_until("the limit has ended", || !is_limited(&weir, "Hog") && serving(&weir).is_none());
    for decision in &journal(&weir, "decision")[decided..] {
        assert!(decision.starts_with("returned a step towards the static plan: "), "{decision}");
    }
    json(&weir, &["autopilot", "off"]);
    servers.redis.signal("CONT");
    wait_until("the jobs are back", || servers.length("default_limited_Hog") == 0);
    assert!(weir.stop().success());
}

/// Returns the pids of a group's processes that have not ended.
fn pids(weir: &Weir) -> Vec<i64> {
    let groups = json(weir, &["workers", "list"]);
    let group = groups.as_array().expect("a list").iter().find(|group| group["name"] == "sidekiq");
    let workers = group.expect("the group")["workers"].as_array().expect("a list");
    workers.iter().filter_map(|worker| worker["pid"].as_i64()).collect()
}

#[test]
fn a_process_that_does_not_end_is_killed_before_its_successor_starts() {
    let Some(servers) = servers() else { return };
    let site = servers.site(ON);
    fs::write(site.path().join("worker.rb"), format!("{WORKER}at_exit {{ sleep 30 }}\n"))
        .expect("written");
    let settings = fs::read_to_string(site.path().join("weir.toml")).expect("read");
    site.write(&settings.replace("ready_line", "stop_deadline = \"3s\"\nready_line"));
    let weir = site.start();
    wait_for_sidekiq(&weir);
    let [before] = pids(&weir)[..] else { panic!("one process") };
    json(&weir, &["autopilot", "override", "2", "--for", "10m"]);
    // The connection budget has room for one process of 4 threads, or one of 2.
    let mut most = 0;
    wait_until("a process with fewer threads runs", || {
        let pids = pids(&weir);
        most = most.max(pids.len());
        let groups = status(&weir)["groups"].clone();
        pids.first().is_some_and(|pid| *pid != before) && groups[0]["threads_now"] == 2
    });
    assert_eq!(most, 1, "never two at once");
    let before = Pid::from_raw(i32::try_from(before).expect("a pid")).expect("a pid");
    assert!(!is_running(before));
    // Its successor does not end either.
    weir.stop();
}
