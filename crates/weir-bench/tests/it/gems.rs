//! `weir-bench gems`: the envelope, what is asked for, and that wrong answers are found.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::fake_index::{FakeIndex, Fault};

const CLEAN: Option<i32> = Some(0);
const ERRORS_FOUND: Option<i32> = Some(1);
const IMPOSSIBLE: Option<i32> = Some(2);
const USAGE: Option<i32> = Some(64);

fn bench(arguments: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    let output = command.arg("gems").args(arguments).output().expect("weir-bench runs");
    let envelope = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), envelope, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Loads the index for a moment.
fn run(index: &FakeIndex, scenario: &str, flags: &[&str]) -> (Option<i32>, Value, String) {
    let url = format!("http://{}", index.address);
    let mut arguments = vec!["--json", "--target", &url, "--scenario", scenario];
    arguments.extend(["--seconds", "0.3", "--tail-bytes", "100", "--api-key", "key"]);
    arguments.extend(flags);
    bench(&arguments)
}

fn first_error(envelope: &Value) -> &str {
    envelope["first_error"].as_str().unwrap_or_default()
}

#[test]
fn every_scenario_sends_its_requests_and_reports_the_envelope() {
    for (scenario, status, asked) in [
        ("info", "200", "/info/ra"),
        ("versions-tail", "206", "/versions"),
        ("versions-full", "200", "/versions"),
        ("dependencies", "200", "/api/v1/dependencies?gems=ra"),
        ("push", "200", "/api/v1/gems"),
    ] {
        let index = FakeIndex::start(Fault::None);
        let (code, envelope, stderr) = run(&index, scenario, &["--names-per-request", "2"]);
        assert_eq!(code, CLEAN, "{scenario}: {envelope} {stderr}");
        assert_eq!((&envelope["bench"], &envelope["scenario"]), (&"gems".into(), &scenario.into()));
        let answers = envelope["statuses"][status].as_u64().expect("a number");
        assert!(answers > 0 && envelope["requests"] == answers, "{envelope}");
        assert!(envelope["bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
        let paths = index.requests();
        assert!(paths.iter().filter(|path| path.starts_with(asked)).count() as u64 >= answers);
        assert_eq!(envelope["visible_missing"].as_u64(), (scenario == "push").then_some(0));
    }
}

#[test]
fn dependency_requests_have_the_configured_number_of_names() {
    let index = FakeIndex::start(Fault::None);
    let (code, envelope, _) = run(&index, "dependencies", &["--names-per-request", "3"]);
    assert_eq!(code, CLEAN, "{envelope}");
    let paths = index.requests();
    let lists: BTreeSet<&str> =
        paths.iter().filter_map(|path| path.split_once("?gems=").map(|parts| parts.1)).collect();
    assert!(lists.iter().all(|list| list.split(',').count() == 3), "{lists:?}");
    assert!(lists.len() > 1, "always the same");
}

#[test]
fn unexpected_responses_are_errors() {
    for (fault, scenario, text) in [
        (Fault::Refuses, "info", "an answer was 503, not 200"),
        (Fault::IgnoresRanges, "versions-tail", "an answer was 200, not 206"),
        (Fault::Refuses, "push", "a push was answered with 503"),
    ] {
        let (code, envelope, stderr) = run(&FakeIndex::start(fault), scenario, &[]);
        assert_eq!(code, ERRORS_FOUND, "{envelope} {stderr}");
        assert!(first_error(&envelope).starts_with(text), "{envelope}");
        assert_eq!(envelope["operations_per_second"], 0.0);
    }
}

#[test]
fn push_that_never_becomes_visible_is_an_error() {
    let index = FakeIndex::start(Fault::Forgets);
    let (code, envelope, _) = run(&index, "push", &["--connections", "1"]);
    assert_eq!(code, ERRORS_FOUND);
    assert_eq!(envelope["visible_missing"], envelope["requests"], "{envelope}");
    assert_eq!(first_error(&envelope), "a gem that was pushed is not in /versions after 5 s");
    let (code, _, stderr) = run(&FakeIndex::start(Fault::IgnoresRanges), "push", &[]);
    assert_eq!(code, IMPOSSIBLE, "{stderr}");
    assert!(stderr.contains("a range of /versions is answered with 200"), "{stderr}");
}

#[test]
fn index_is_generated_without_a_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("index.jsonl");
    let path = file.to_str().expect("text");
    let (code, _, stderr) = bench(&["--generate", path, "--gems", "10"]);
    assert_eq!(code, CLEAN, "{stderr}");
    let text = std::fs::read_to_string(&file).expect("written");
    assert_eq!(text.lines().count(), 10);
    assert_eq!(bench(&["--generate", "/nowhere/index", "--gems", "10"]).0, IMPOSSIBLE);
    assert_eq!(bench(&["--generate", path, "--scenario", "info"]).0, USAGE);
    assert_eq!(bench(&["--seconds", "1"]).0, USAGE, "neither");
}

#[test]
fn several_indexes_are_compared_in_one_table() {
    let (one, other) = (FakeIndex::start(Fault::None), FakeIndex::start(Fault::None));
    let peers = [format!("a=http://{}", one.address), format!("b=http://{}", other.address)];
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    command.args(["gems", "compare", "--peer", &peers[0], "--peer", &peers[1], "--rounds", "2"]);
    command.args(["--scenario", "info", "--seconds", "0.2", "--connections", "1,2"]);
    let output = command.output().expect("weir-bench runs");
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), CLEAN, "{}", String::from_utf8_lossy(&output.stderr));
    assert!(table.contains("| info, 1 connection |") && table.contains("| info, 2 connections |"));
    assert_eq!(table.matches("\n| b | ").count(), 2, "{table}");
}
