//! `weir-bench exodus`: its figures, against a small server that a script passes off as Weir.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::fake_server::{FakeServer, Fault};

/// Runs it with these flags. Returns the exit code, the envelope and the errors.
fn run(fault: Fault, flags: &[&str]) -> (Option<i32>, Value, String) {
    let server = FakeServer::start(fault);
    let folder = tempfile::tempdir().expect("a folder");
    let weir = folder.path().join("weir");
    let ready = format!("weir ready jobs={} admin=/none", server.address);
    std::fs::write(&weir, format!("#!/bin/sh\necho '{ready}'\nexec sleep 600\n")).expect("written");
    std::fs::set_permissions(&weir, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    command.args(["exodus", "--json", "--policy", "strict", "--weir"]).arg(weir).args(flags);
    let output = command.output().expect("weir-bench runs");
    let envelope = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), envelope, String::from_utf8_lossy(&output.stderr).into_owned())
}

const MANY_WORKERS: [&str; 6] = ["--backlog", "400", "--processes", "2", "--threads", "100"];

#[test]
fn a_backlog_is_drained_and_waits_of_new_jobs_are_reported() {
    let (code, envelope, stderr) = run(Fault::None, &MANY_WORKERS);
    assert_eq!(code, Some(0), "{envelope} {stderr}");
    assert_eq!((&envelope["bench"], &envelope["scenario"]), (&"exodus".into(), &"strict".into()));
    assert_eq!((&envelope["drained"], &envelope["errors"]), (&true.into(), &0.into()));
    for queue in ["default", "push", "mailers", "pull", "scheduler"] {
        let figures = &envelope["queues"][queue];
        for figure in ["wait_p50_s", "wait_p95_s", "wait_p99_s", "target_s"] {
            assert!(figures[figure].is_number(), "{queue} {figure}: {envelope}");
        }
    }
    let number = |figure: &str| envelope[figure].as_f64().expect("a number");
    assert!(number("drain_s") > 0.0 && number("slowdown") >= 1.0, "{envelope}");
    assert!(number("wait_longest_s") <= number("drain_s") + 1.0, "{envelope}");
}

#[test]
fn jobs_that_are_not_served_count_with_their_age() {
    let few = ["--backlog", "2000", "--processes", "1", "--threads", "5", "--hours-max", "0.02"];
    let (code, envelope, stderr) = run(Fault::None, &few);
    assert_eq!((code, &envelope["drained"]), (Some(0), &false.into()), "{envelope} {stderr}");
    let queues = envelope["queues"].as_object().expect("queues");
    let jobs: u64 = queues.values().filter_map(|queue| queue["jobs"].as_u64()).sum();
    assert_eq!(Some(jobs), envelope["unserved"].as_u64(), "{envelope}");
    assert!(jobs > 0 && envelope["wait_longest_s"].as_f64() > Some(30.0), "{envelope}");
}

#[test]
fn a_job_that_is_fetched_twice_is_an_error() {
    let (code, envelope, stderr) = run(Fault::RepeatsAJob, &MANY_WORKERS);
    assert_eq!((code, &envelope["errors"]), (Some(1), &1.into()), "{envelope} {stderr}");
}

#[test]
fn impossible_runs_are_refused() {
    let (code, _, stderr) = run(Fault::None, &["--time-scale", "0"]);
    assert!(code == Some(2) && stderr.contains("--time-scale 0"), "{stderr}");
    let (code, _, stderr) = run(Fault::ClosesOnFetch, &MANY_WORKERS);
    assert!(code == Some(2) && stderr.contains("command FETCH: "), "{stderr}");
}
