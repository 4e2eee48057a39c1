//! `weir-bench front`: the envelope, that all servers get the same load, that faults are found and never make it
//! hang, and that a Weir of its own is started and stopped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::fake_app::{FakeApp, Fault};

const CLEAN: Option<i32> = Some(0);
const ERRORS_FOUND: Option<i32> = Some(1);
const IMPOSSIBLE: Option<i32> = Some(2);
const USAGE: Option<i32> = Some(64);

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    command.args(["front"]).args(arguments).output().expect("weir-bench runs")
}

fn report(output: &Output) -> (Option<i32>, Value, String) {
    let envelope = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), envelope, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Loads the app for a moment, from 4 connections.
fn run(app: &FakeApp, scenario: &str, flags: &[&str]) -> (Option<i32>, Value, String) {
    let url = format!("http://{}", app.address);
    let mut arguments = vec!["--json", "--target", &url, "--scenario", scenario];
    for (flag, value) in [("--seconds", "0.3"), ("--connections", "4"), ("--timeout-seconds", "20")]
    {
        if !flags.contains(&flag) {
            arguments.extend([flag, value]);
        }
    }
    arguments.extend(flags);
    report(&bench(&arguments))
}

fn number(envelope: &Value, figure: &str) -> u64 {
    envelope[figure].as_u64().unwrap_or_else(|| panic!("{figure}: {envelope}"))
}

fn first_error(envelope: &Value) -> &str {
    envelope["first_error"].as_str().unwrap_or_default()
}

#[test]
fn every_scenario_reports_the_envelope_and_the_shares() {
    let pid = std::process::id().to_string();
    for scenario in ["noop", "mixed", "bundler"] {
        let app = FakeApp::start(Fault::None);
        let arguments = ["--workers", "4", "--server-pid", &pid];
        let (code, envelope, stderr) = run(&app, scenario, &arguments);
        assert_eq!(code, CLEAN, "{scenario}: {envelope} {stderr}");
        assert_eq!(
            (&envelope["bench"], &envelope["scenario"]),
            (&"front".into(), &scenario.into())
        );
        for figure in
            ["p99_us", "operations_per_second", "client_cpu_seconds", "server_rss_bytes", "jain"]
        {
            assert!(
                envelope[figure].as_f64().is_some_and(|value| value > 0.0),
                "{figure}: {envelope}"
            );
        }
        let server_cpu = ["server_user_cpu_us_per_operation", "server_system_cpu_us_per_operation"];
        assert!(server_cpu.iter().all(|figure| envelope[figure].is_number()), "{envelope}");
        assert_eq!((number(&envelope, "timeouts"), number(&envelope, "errors")), (0, 0));
        assert_eq!(number(&envelope, "requests"), app.requests().len() as u64);
        assert_eq!(envelope["of_ceiling"].is_number(), scenario == "mixed", "{envelope}");
        assert_eq!(envelope["offered_load"].is_number(), scenario == "bundler", "{envelope}");
    }
}

#[test]
fn idle_workers_are_counted() {
    // The app calls each connection a worker.
    let app = FakeApp::start(Fault::None);
    let (code, envelope, _) = run(&app, "noop", &["--workers", "6"]);
    assert_eq!(code, CLEAN);
    let figures = ["workers_seen", "idle_workers", "min"].map(|figure| number(&envelope, figure));
    assert_eq!(figures, [4, 2, 0], "{envelope}");
    let jain = envelope["jain"].as_f64().expect("a number");
    assert!(jain <= 4.0 / 6.0 + 1e-3, "{envelope}");
    let (_, envelope, _) = run(&app, "noop", &[]);
    assert!(envelope["idle_workers"].is_null() && number(&envelope, "min") > 0, "{envelope}");
}

#[test]
fn service_times_are_determined_by_the_seed() {
    let sequence = |seed: &str| {
        let app = FakeApp::start(Fault::None);
        let arguments = ["--connections", "1", "--requests-per-second", "400", "--seed", seed];
        assert_eq!(run(&app, "bundler", &arguments).0, CLEAN);
        app.requests()
    };
    let first = sequence("1");
    assert!(first.len() > 50 && first[0].starts_with("GET /sleep?us="), "{first:?}");
    assert_eq!(first, sequence("1"));
    assert_ne!(first, sequence("2"));
}

#[test]
fn service_times_follow_the_scenario() {
    let app = FakeApp::start(Fault::None);
    assert_eq!(run(&app, "mixed", &[]).0, CLEAN);
    let requests = app.requests();
    let known = ["GET /sleep?us=5000 HTTP/1.1", "GET /sleep?us=250000 HTTP/1.1"];
    assert!(requests.iter().all(|request| known.contains(&request.as_str())), "{requests:?}");
    assert!(known.iter().all(|known| requests.iter().any(|request| request == known)));
}

#[test]
fn open_loop_does_not_wait_for_responses() {
    let app = FakeApp::start(Fault::HoldsUntil(8));
    let open = ["--requests-per-second", "200", "--connections", "100"];
    let (code, envelope, _) = run(&app, "noop", &open);
    assert_eq!((code, number(&envelope, "timeouts")), (CLEAN, 0), "{envelope}");
    let app = FakeApp::start(Fault::HoldsUntil(8));
    let closed = ["--timeout-seconds", "0.5"];
    let (code, envelope, _) = run(&app, "noop", &closed);
    assert_eq!((code, number(&envelope, "timeouts")), (ERRORS_FOUND, 4), "{envelope}");
}

/// Latencies count from when a request should have been sent, not from when a connection was free for it.
#[test]
fn latency_includes_waiting_for_a_connection() {
    let app = FakeApp::start(Fault::NeverAnswers);
    let arguments =
        ["--requests-per-second", "100", "--connections", "1", "--timeout-seconds", "0.2"];
    let (code, envelope, _) = run(&app, "noop", &arguments);
    let (requests, timeouts) = (number(&envelope, "requests"), number(&envelope, "timeouts"));
    assert_eq!(code, ERRORS_FOUND);
    assert!(requests > 10 && timeouts == requests, "{envelope}");
    assert!(app.requests().len() < 8, "one at a time, for 0.2 s each");
    assert!(number(&envelope, "waited_for_connection") > 0, "{envelope}");
    let longest = envelope["max_us"].as_f64().expect("a number");
    assert!(longest >= 200_000.0, "{envelope}");
}

/// A single worker, asked for three times as much as it can do: who comes last waits for all before.
#[test]
fn latency_includes_queueing() {
    let mut worker = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
    let worker = worker.args(["front-worker", "--port", "0"]).stdout(Stdio::piped());
    let mut worker = worker.spawn().expect("it runs");
    let mut line = String::new();
    let output = worker.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("where it listens");
    let url = format!("http://{}", line.trim_end().trim_start_matches("listening on "));
    let mut arguments = vec!["--json", "--target", &url, "--scenario", "mixed", "--seconds", "0.5"];
    arguments.extend(["--requests-per-second", "200", "--connections", "1"]);
    let (code, envelope, stderr) = report(&bench(&arguments));
    worker.kill().expect("killed");
    worker.wait().expect("ended");
    assert_eq!(code, CLEAN, "{envelope} {stderr}");
    let figure = |name: &str| envelope[name].as_f64().expect("a number");
    let all_the_work_us = figure("mean_service_us") * figure("requests");
    assert!(figure("max_us") >= all_the_work_us - 0.5e6, "{envelope}");
    assert!(all_the_work_us > 1e6, "{envelope}");
}

#[test]
fn responses_other_than_200_are_errors() {
    let app = FakeApp::start(Fault::Refuses);
    let (code, envelope, _) = run(&app, "noop", &[]);
    let refused = number(&envelope["statuses"], "503");
    assert_eq!((code, number(&envelope, "errors")), (ERRORS_FOUND, refused), "{envelope}");
    let rate = envelope["operations_per_second"].as_f64().expect("a rate");
    let requests = number(&envelope, "requests");
    assert_eq!(refused, (requests + 1) / 10);
    #[expect(clippy::cast_precision_loss, reason = "few")]
    let answered = (requests - refused) as f64;
    // 4 may be answered after the end.
    assert!(rate * 0.3 <= answered + 0.5 && rate * 0.3 >= answered - 4.5, "{envelope}");
    assert_eq!(first_error(&envelope), "an answer was 503, not 200");
}

#[test]
fn closed_connections_are_errors_unless_idle() {
    let (code, envelope, _) = run(&FakeApp::start(Fault::Closes), "mixed", &["--keep-alive=false"]);
    assert_eq!(code, ERRORS_FOUND);
    assert_eq!(first_error(&envelope), "the server closed a connection unanswered");
    let (code, envelope, _) = run(&FakeApp::start(Fault::ClosesIdle), "mixed", &[]);
    assert_eq!((code, number(&envelope, "errors")), (CLEAN, 0), "{envelope}");
}

#[test]
fn keep_alive_follows_the_flag() {
    let app = FakeApp::start(Fault::None);
    assert_eq!(run(&app, "noop", &["--keep-alive"]).0, CLEAN);
    assert_eq!(app.connections(), 4);
    let app = FakeApp::start(Fault::None);
    let (code, envelope, _) = run(&app, "noop", &["--keep-alive=false"]);
    assert_eq!((code, app.connections() as u64), (CLEAN, number(&envelope, "requests")));
}

#[test]
fn missing_worker_names_are_errors_if_workers_is_set() {
    let app = FakeApp::start(Fault::HasNoNames);
    let (code, envelope, _) = run(&app, "noop", &[]);
    assert_eq!(code, CLEAN);
    assert!(envelope["jain"].is_null(), "{envelope}");
    let (code, envelope, _) = run(&app, "noop", &["--workers", "4"]);
    assert_eq!((code, first_error(&envelope)), (ERRORS_FOUND, "an answer without X-Worker"));
}

#[test]
fn comparison_runs_every_peer_in_every_round() {
    let (one, other) = (FakeApp::start(Fault::None), FakeApp::start(Fault::None));
    let peers = [format!("one=http://{}", one.address), format!("other=http://{}", other.address)];
    let mut arguments = vec!["compare", "--peer", &peers[0], "--peer", &peers[1], "--rounds", "2"];
    arguments.extend(["--connections", "1,2", "--scenario", "mixed", "--seconds", "0.1"]);
    arguments.push("--by-worker");
    let output = bench(&arguments);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!((output.status.code(), table.lines().count()), (CLEAN, 2 * (5 + 5)), "{table}");
    // The fake app names each connection a worker, of which there are 1 and 2.
    let counts = table.split("| requests of each worker, last round |").skip(1);
    let workers_of = |counts: &str| {
        let line = counts.lines().find_map(|line| line.strip_prefix("| other | ")).expect("a line");
        line.trim_end_matches(" |").split(' ').count()
    };
    let workers: Vec<usize> = counts.map(workers_of).collect();
    assert_eq!(workers, [1, 2], "{table}");
    assert!(table.contains("| mixed, 1 connection |") && table.contains("\n| other | "), "{table}");
    // A connection for each probe, and 1 or 2 for each run.
    assert_eq!((one.connections(), other.connections()), (4 + 6 - 1, 4 + 6 - 1));
}

/// A Weir that says it is ready, with two workers, and stays until it is told to end.
fn fake_weir(folder: &Path, app: &FakeApp) -> PathBuf {
    let (path, notes) = (folder.join("weir"), folder.join("notes"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = workers ]; then echo '[{{\"workers\":[{{\"state\":\"serving\"}},\
         {{\"state\":\"serving\"}}]}}]'; exit; fi\n\
         for settings; do :; done\n\
         echo \"$$ $settings\" >'{notes}'; cat \"$settings\" >>'{notes}'\n\
         echo 'weir ready front={address} admin=/x'\nexec sleep 600\n",
        notes = notes.display(),
        address = app.address,
    );
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    path
}

#[test]
fn self_hosted_weir_is_started_stopped_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let app = FakeApp::start(Fault::None);
    let weir = fake_weir(folder.path(), &app);
    let weir = weir.to_str().expect("text");
    let arguments =
        ["--self-hosted", "--mode", "proxy", "--workers", "2", "--weir", weir, "--json"];
    let load = ["--scenario", "noop", "--seconds", "0.2", "--connections", "2"];
    let (code, envelope, stderr) = report(&bench(&[&arguments[..], &load].concat()));
    assert_eq!(code, CLEAN, "{envelope} {stderr}");
    assert_eq!((number(&envelope, "idle_workers"), number(&envelope, "errors")), (0, 0));
    assert!(number(&envelope, "server_rss_bytes") > 0, "{envelope}");
    let notes = fs::read_to_string(folder.path().join("notes")).expect("it was started");
    let (pid, settings) =
        notes.lines().next().and_then(|line| line.split_once(' ')).expect("noted");
    assert!(!Path::new("/proc").join(pid).exists(), "it still runs: {notes}");
    assert!(!Path::new(settings).exists(), "it is still there: {settings}");
    assert!(notes.contains("workers = 2\ncommand = ["), "{notes}");
}

#[test]
fn failed_start_is_reported_with_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let weir = folder.path().join("weir");
    fs::write(&weir, "#!/bin/sh\necho 'mode: no such setting' >&2\nexit 3\n").expect("written");
    fs::set_permissions(&weir, fs::Permissions::from_mode(0o755)).expect("made executable");
    let weir = weir.to_str().expect("text");
    let arguments = ["--self-hosted", "--workers", "2", "--weir", weir, "--scenario", "noop"];
    let (code, _, stderr) = report(&bench(&arguments));
    assert_eq!(code, IMPOSSIBLE);
    assert!(stderr.contains("no such setting"), "{stderr}");
}

#[test]
fn usage_errors_and_impossible_runs_have_different_exit_codes() {
    assert_eq!(bench(&[]).status.code(), USAGE);
    for wrong in [
        &["--scenario", "nonsense"][..],
        &["--scenario", "noop", "--self-hosted"],
        &["--scenario", "noop", "--target", "127.0.0.1:1"],
        &["--scenario", "noop", "--keep-alive", "false"],
    ] {
        assert_eq!(bench(wrong).status.code(), USAGE, "{wrong:?}");
    }
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let nowhere = format!("http://{}", nobody.local_addr().expect("bound"));
    drop(nobody);
    for (flags, named) in [
        (&["--scenario", "noop", "--connections", "0"][..], "--connections 0"),
        (&["--scenario", "bundler"], "--requests-per-second"),
        (&["--scenario", "noop", "--queues", "2"], "--queues belongs to --mode sockets"),
        (&["--scenario", "noop"], "asking http://127.0.0.1:"),
    ] {
        let (code, _, stderr) = report(&bench(&[&["--target", &nowhere], flags].concat()));
        assert_eq!(code, IMPOSSIBLE, "{flags:?}");
        assert!(stderr.contains(named), "{stderr}");
    }
}
