//! `weir-bench jobs`: the envelope, and that a server's faults are found and never make it hang.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

use crate::fake_server::{FakeServer, Fault};

const CLEAN: Option<i32> = Some(0);
const ERRORS_FOUND: Option<i32> = Some(1);
const IMPOSSIBLE: Option<i32> = Some(2);
const USAGE: Option<i32> = Some(64);

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    command.args(["jobs"]).args(arguments).output().expect("weir-bench runs")
}

/// Runs a scenario of 200 jobs on 4 connections with short patience.
fn run(server: &FakeServer, scenario: &str, flags: &[&str]) -> (Option<i32>, Value, String) {
    let url = format!("tcp://{}", server.address);
    let mut arguments = vec!["--json", "--url", &url, "--scenario", scenario, "--jobs", "200"];
    arguments.extend(["--connections", "4", "--operation-timeout-seconds", "3"]);
    if !flags.contains(&"--stall-timeout-seconds") {
        arguments.extend(["--stall-timeout-seconds", "1"]);
    }
    arguments.extend(flags);
    let output = bench(&arguments);
    let envelope = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), envelope, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn first_error(envelope: &Value) -> &str {
    envelope["first_error"].as_str().unwrap_or_default()
}

#[test]
fn every_scenario_completes_all_jobs_and_reports_the_envelope() {
    for scenario in ["push", "fetch-ack", "pushb", "mixed", "backlog"] {
        let server = FakeServer::start(Fault::None);
        let pid = std::process::id().to_string();
        let (code, envelope, stderr) =
            run(&server, scenario, &["--server-pid", &pid, "--threads", "2"]);
        assert_eq!(code, CLEAN, "{scenario}: {envelope} {stderr}");
        assert_eq!((&envelope["bench"], &envelope["scenario"]), (&"jobs".into(), &scenario.into()));
        let (rate, seconds) = (&envelope["operations_per_second"], &envelope["seconds"]);
        let operations = rate.as_f64().expect("a rate") * seconds.as_f64().expect("a time");
        assert!((operations - 200.0).abs() < 1.0, "{scenario}: {operations} operations");
        for figure in ["p50_us", "p95_us", "p99_us", "client_cpu_seconds", "server_rss_bytes"] {
            assert!(
                envelope[figure].as_f64().is_some_and(|value| value > 0.0),
                "{figure}: {envelope}"
            );
        }
        assert_eq!(envelope["settings"]["payload_bytes"], 250);
    }
}

#[test]
fn each_job_is_fetched_and_acknowledged_once() {
    let server = FakeServer::start(Fault::None);
    let (code, ..) = run(&server, "fetch-ack", &["--in-flight", "3"]);
    assert_eq!(code, CLEAN);
    assert_eq!((server.count("FETCH"), server.count("ACK")), (200, 200));
}

#[test]
fn batch_size_fetches_and_acknowledges_in_batches() {
    for scenario in ["fetch-ack", "backlog"] {
        let server = FakeServer::start(Fault::None);
        let (code, envelope, stderr) = run(&server, scenario, &["--batch", "30"]);
        assert_eq!(code, CLEAN, "{envelope} {stderr}");
        assert_eq!((server.count("PUSHB"), server.count("FETCH"), server.count("ACK")), (8, 0, 0));
        assert!(server.count("FETCHB") >= 7 && server.count("ACKB") >= 7);
        assert_eq!(envelope["settings"]["drain_batch"], 30);
        assert_eq!(envelope["phases"][1]["operations"], 200);
    }
}

#[test]
fn backlog_is_drained_partly_and_the_rest_removed() {
    let server = FakeServer::start(Fault::None);
    let (code, envelope, _) = run(&server, "backlog", &["--drain", "50"]);
    assert_eq!((code, server.count("ACK"), server.count("QUEUE")), (CLEAN, 50, 1));
    assert_eq!(envelope["phases"][0]["operations"], 200);
    assert_eq!(envelope["phases"][1]["operations"], 50);
}

#[test]
fn server_without_pushb_is_filled_one_by_one() {
    let server = FakeServer::start(Fault::HasNoPushb);
    let (code, ..) = run(&server, "fetch-ack", &[]);
    assert_eq!((code, server.count("PUSH")), (CLEAN, 200));
}

#[test]
fn repeated_delivery_is_detected() {
    let (code, envelope, _) = run(&FakeServer::start(Fault::RepeatsAJob), "fetch-ack", &[]);
    assert_eq!(code, ERRORS_FOUND);
    assert!(envelope["errors"].as_u64().is_some_and(|errors| errors > 0), "{envelope}");
}

#[test]
fn lost_jobs_are_counted() {
    let (code, envelope, _) = run(&FakeServer::start(Fault::LosesJobs), "push", &[]);
    assert_eq!((code, &envelope["errors"]), (ERRORS_FOUND, &20.into()), "{envelope}");
    assert!(first_error(&envelope).contains("180 jobs are waiting, 200 should be"), "{envelope}");
}

#[test]
fn drain_of_lost_jobs_ends_and_counts_them() {
    let (code, envelope, _) = run(&FakeServer::start(Fault::LosesJobs), "mixed", &[]);
    assert_eq!(code, ERRORS_FOUND);
    assert!(envelope["errors"].as_u64().is_some_and(|errors| errors >= 20), "{envelope}");
    assert!(first_error(&envelope).contains("--stall-timeout-seconds"), "{envelope}");
}

#[test]
fn rejected_pushes_are_errors_and_not_operations() {
    for scenario in ["push", "pushb"] {
        let (code, envelope, _) = run(&FakeServer::start(Fault::RefusesJobs), scenario, &[]);
        assert_eq!((code, &envelope["errors"]), (ERRORS_FOUND, &20.into()), "{envelope}");
        assert_eq!(envelope["phases"][0]["operations"], 180);
        assert!(first_error(&envelope).starts_with("push refused"), "{envelope}");
    }
}

#[test]
fn unresponsive_server_ends_the_run() {
    let arguments = ["--stall-timeout-seconds", "60"];
    let (code, _, stderr) =
        run(&FakeServer::start(Fault::NeverAnswersFetch), "fetch-ack", &arguments);
    assert_eq!(code, IMPOSSIBLE);
    assert!(stderr.contains("--operation-timeout-seconds"), "{stderr}");
}

#[test]
fn closed_connection_ends_the_run() {
    let (code, _, stderr) = run(&FakeServer::start(Fault::ClosesOnFetch), "fetch-ack", &[]);
    assert_eq!(code, IMPOSSIBLE);
    assert!(stderr.contains("closed a connection"), "{stderr}");
}

#[test]
fn comparison_runs_every_peer_in_every_round() {
    let (one, other) = (FakeServer::start(Fault::None), FakeServer::start(Fault::None));
    let peers = [format!("one=tcp://{}", one.address), format!("other=tcp://{}", other.address)];
    let mut arguments = vec!["compare", "--peer", &peers[0], "--peer", &peers[1], "--rounds", "3"];
    arguments.extend(["--connections", "1,2", "--scenario", "push", "--jobs", "50"]);
    let output = bench(&arguments);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), table.lines().count()), (CLEAN, 2 + 4), "{table}");
    assert!(table.contains("| push, 2 connections | other |"), "{table}");
    assert_eq!((one.count("PUSH"), other.count("PUSH")), (300, 300));
}

#[test]
fn recorded_comparisons_become_a_page() {
    let (weir, other) = (FakeServer::start(Fault::None), FakeServer::start(Fault::None));
    let folder = tempfile::tempdir().expect("a folder");
    let [record, page] = ["record", "page.md"].map(|name| folder.path().join(name));
    let markers = "<!-- weir-bench report: begin -->\nold\n<!-- weir-bench report: end -->\n";
    fs::write(&page, format!("# Title\n{markers}The rest.\n")).expect("writable");
    let peers = [format!("Weir=tcp://{}", weir.address), format!("other=tcp://{}", other.address)];
    let mut arguments = vec!["compare", "--peer", &peers[0], "--peer", &peers[1]];
    arguments.extend(["--scenario", "push", "--jobs", "50", "--title", "Jobs"]);
    let [record, page_text] = [&record, &page].map(|path| path.to_str().expect("UTF-8"));
    arguments.extend(["--record", record]);
    assert_eq!(bench(&arguments).status.code(), CLEAN);
    let report = Command::new(env!("CARGO_BIN_EXE_weir-bench"))
        .args(["report", record, "--page", page_text])
        .status();
    assert!(report.expect("it runs").success());
    let text = fs::read_to_string(&page).expect("readable");
    for part in ["# Title\n", "of 1 comparisons with peers", "| other | ", "\nThe rest.\n"] {
        assert!(text.contains(part) && !text.contains("old"), "{part}: {text}");
    }
    let chart = fs::read_to_string(folder.path().join("images/bench-jobs.svg"));
    assert!(chart.expect("a chart").contains(">other</text>"));
}

#[test]
fn usage_errors_and_impossible_settings_have_different_exit_codes() {
    assert_eq!(bench(&[]).status.code(), USAGE);
    assert_eq!(bench(&["--scenario", "nonsense"]).status.code(), USAGE);
    let server = FakeServer::start(Fault::None);
    for (scenario, flags) in [
        ("push", ["--payload-bytes", "10"]),
        ("push", ["--drain", "5"]),
        ("mixed", ["--connections", "1"]),
        ("push", ["--operation-timeout-seconds", "1"]),
    ] {
        let url = format!("tcp://{}", server.address);
        let output = bench(&["--url", &url, "--scenario", scenario, flags[0], flags[1]]);
        assert_eq!(output.status.code(), IMPOSSIBLE, "{flags:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(flags[0]), "{output:?}");
    }
}
