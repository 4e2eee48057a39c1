//! `weir workers set` and `reset`: until when, through restarts, kills and changed settings.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::{list_workers, running_pids, site, start};
use crate::http::get;
use crate::process::wait_until;
use crate::weir::{Site, Weir};

/// Posts to the admin socket.
fn post_to_admin(weir: &Weir, body: &str) -> String {
    let mut socket = UnixStream::connect(weir.data_dir().join("weir.sock")).expect("connected");
    let length = body.len();
    let head = format!(
        "POST /v1/workers HTTP/1.1\r\nhost: weir\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    socket.write_all((head + body).as_bytes()).expect("sent");
    let mut response = String::new();
    socket.read_to_string(&mut response).expect("a response");
    response
}

/// The arguments of the processes that run, sorted.
fn told(weir: &Weir) -> Vec<String> {
    let arguments = |pid: i64| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let arguments: Vec<&str> = line.trim_end_matches('\0').split('\0').skip(2).collect();
        arguments.join(" ")
    };
    let mut told: Vec<String> = running_pids(weir).into_iter().map(arguments).collect();
    told.sort();
    told
}

const STATIC: &str = "7 -q critical -q mailers";
const OVERRIDDEN: &str = "3 -q mailers -q low,2";

fn become_told(weir: &Weir, expected: &[&str]) {
    wait_until(&format!("{expected:?}"), || told(weir) == expected);
}

fn set(site: &Site, more: &[&str]) -> String {
    let arguments = ["workers", "set", "mailers", "--data-dir", "data"];
    site.ok(&[&arguments[..], more].concat())
}

const CHANGE: [&str; 6] = ["--processes", "3", "--threads", "3", "--queues", "mailers,low=2"];

#[test]
fn values_are_overridden_for_a_time() {
    let weir = start("[budget]\ndatabase_connections = 30\nreserve = 9\n");
    let before = running_pids(&weir);
    let shown = set(&weir.site, &[&CHANGE[..], &["--dry-run"]].concat());
    assert!(shown.starts_with("mailers would have 3 processes, 3 threads each, queues mailers,low=2; it had 2 processes, 7 threads each"), "{shown}");
    assert_eq!(running_pids(&weir), before);
    let shown = set(&weir.site, &[&CHANGE[..], &["--for", "2h", "--reason", "a flood"]].concat());
    assert!(
        shown.contains("database connections: 9 of mailers, 9 of all groups, at most 21\n"),
        "{shown}"
    );
    assert!(shown.ends_with("the processes of mailers: replaced\n"), "{shown}");
    assert_eq!(told(&weir), [OVERRIDDEN; 3], "it waits for them");
    let shown = weir.site.ok(&["workers", "list", "--data-dir", "data"]);
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in ["threads 7 3 overridden", ": a flood", "ends in 1h 59m"] {
        assert!(words.contains(line), "{line}: {shown}");
    }
    let group = list_workers(&weir);
    let values = &group["values"];
    assert_eq!(values["configured"]["threads"], 7);
    assert_eq!(values["in_force"]["threads"], 3);
    assert_eq!(values["override"]["reason"], "a flood");
    let journal = weir.site.ok(&["autopilot", "journal", "--data-dir", "data"]);
    let line = "workers of mailers: processes 3, threads 3, queues mailers,low=2: a flood";
    assert!(journal.contains(line), "{journal}");
    let (_, metrics) = get(weir.console(), "/metrics", "");
    for line in [
        "weir_workers_override{group=\"mailers\",key=\"queues\"} 1\n",
        "weir_workers_database_connections{group=\"mailers\"} 9\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    let shown = weir.site.shown(&["workers", "scale", "mailers", "2", "--data-dir", "data"]);
    assert!(shown.contains("end that with weir workers reset"), "{shown}");
    let shown = weir.site.ok(&["workers", "reset", "mailers", "--data-dir", "data"]);
    assert!(shown.contains("mailers gets 2 processes, 7 threads each"), "{shown}");
    assert_eq!(told(&weir), [STATIC; 2]);
    // It ends by itself.
    set(&weir.site, &["--threads", "4", "--for", "1s", "--no-wait"]);
    wait_until("it has ended", || list_workers(&weir)["values"]["override"] == Value::Null);
    become_told(&weir, &[STATIC; 2]);
    assert!(weir.stop().success());
}

#[test]
fn overrides_outlive_kills_restarts_upgrades_and_changed_settings() {
    let weir = start("");
    set(&weir.site, &CHANGE);
    let site = weir.kill_parent();
    let mut weir = site.start();
    become_told(&weir, &[OVERRIDDEN; 3]);
    let before = running_pids(&weir);
    weir.site.ok(&["restart", "--data-dir", "data"]);
    become_told(&weir, &[OVERRIDDEN; 3]);
    let settings = weir.site.path().join("weir.toml");
    let text = std::fs::read_to_string(&settings).expect("read");
    let changed = text.replace("concurrency = 7", "concurrency = 8");
    weir.site.write(&changed.replace("processes = 2", "processes = 4"));
    weir.signal(rustix::process::Signal::HUP);
    weir.wait_for_log("workers.mailers.concurrency changed: needs `weir upgrade`");
    weir.site.ok(&["upgrade", "--data-dir", "data"]);
    wait_until("the new settings are in effect", || {
        list_workers(&weir)["values"]["configured"]["threads"] == 8
    });
    assert_eq!((running_pids(&weir), told(&weir)), (before, vec![OVERRIDDEN.to_owned(); 3]));
    let group = list_workers(&weir);
    let changed = &group["values"]["changed_settings"];
    assert_eq!(*changed, serde_json::json!(["processes", "threads"]));
    let shown = weir.site.ok(&["workers", "list", "--data-dir", "data"]);
    assert!(shown.contains("weir.toml has changed since"), "{shown}");
    weir.site.ok(&["workers", "reset", "mailers", "--data-dir", "data"]);
    become_told(&weir, &["8 -q critical -q mailers"; 4]);
    assert!(weir.stop().success());
}

#[test]
fn bad_overrides_are_refused_with_what_to_do() {
    let weir = start(
        "[workers.plain]\ncommand = [\"sleep\", \"1000\"]\n\
         [budget]\ndatabase_connections = 30\nreserve = 9\n",
    );
    let refused = |arguments: &[&str]| {
        let all = [&["workers", "set"][..], arguments, &["--data-dir", "data"]].concat();
        let output = weir.site.run(&all);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (arguments, expected) in [
        (&["mailers"][..], "nothing to change"),
        (&["mailers", "--processes", "0"], "1 to 1000 are possible"),
        (&["mailers", "--queues=-r/tmp/x"], "would be an option of the command"),
        (&["mailers", "--threads", "8", "--for", "8d"], "an override holds for 1s to 7d"),
        (&["mailers", "--threads", "11"], "mailers: 2 processes x 11 connections = 22; with 1 of"),
        (&["plain", "--threads", "2"], "add \"-c\", \"{concurrency}\" to command"),
        (&["nothing", "--threads", "2"], "weir workers list shows all"),
    ] {
        let shown = refused(arguments);
        assert!(shown.contains(expected), "{arguments:?}: {shown}");
    }
    let body = r#"{"do":"set","app":"mailers","change":{"thread":2}}"#;
    let response = post_to_admin(&weir, body);
    assert!(response.starts_with("HTTP/1.1 4") && response.contains("thread"), "{response}");
    assert_eq!(list_workers(&weir)["values"]["override"], Value::Null);
    assert!(weir.stop().success());
}

#[test]
fn a_damaged_file_of_overrides_is_kept_and_named() {
    let site = site("");
    std::fs::create_dir(site.path().join("data")).expect("made");
    site.write_file("data/worker-overrides.json", b"{");
    let mut weir = site.start();
    weir.wait_for_log("no override of workers is in force");
    become_told(&weir, &[STATIC; 2]);
    let arguments = ["workers", "set", "mailers", "--threads", "2", "--data-dir", "data"];
    let shown = weir.site.shown(&arguments);
    assert!(shown.contains("correct or remove it"), "{shown}");
    assert!(weir.stop().success());
}
