//! `weir demo`: everything it starts, a flood, and its end without a trace.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::Receiver;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::http::{get, post};
use crate::process::{TEST_TIMEOUT, lines_of, output_of, wait_for, wait_until};
use crate::weir::{Site, is_running, program};

/// Lines with figures that a test waits for at most.
const LINES_MAX: usize = 60;

/// A running demo on free ports. Dropping it ends it.
struct Demo {
    child: Child,
    lines: Receiver<String>,
    errors: Receiver<String>,
    ready: Value,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let mut command = program();
        command.args(["demo", "--free-ports", "--json", "--every", "1", "--clients", "20"]);
        command.args(arguments).stdin(Stdio::null());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = lines_of(child.stdout.take().expect("piped"));
        let errors = lines_of(child.stderr.take().expect("piped"));
        let mut demo = Self { child, lines, errors, ready: Value::Null };
        demo.ready = demo.next()["ready"].clone();
        demo
    }

    /// Returns the next line.
    fn next(&self) -> Value {
        let Ok(line) = self.lines.recv_timeout(TEST_TIMEOUT) else {
            panic!("no line; errors: {:?}", self.errors.try_iter().collect::<Vec<_>>());
        };
        serde_json::from_str(&line).expect("JSON")
    }

    /// Returns the first report that meets the condition.
    fn wait_for(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..LINES_MAX {
            last = self.next();
            if condition(&last) {
                return last;
            }
        }
        panic!("{what}: {last}");
    }

    fn address(&self, name: &str) -> &str {
        self.ready[name].as_str().expect("an address")
    }

    fn folder(&self) -> PathBuf {
        self.address("folder").into()
    }

    /// Returns all processes that the demo has started, and theirs.
    fn processes(&self) -> Vec<Pid> {
        let mut found = vec![Pid::from_child(&self.child)];
        let mut next = 0;
        while let Some(parent) = found.get(next) {
            found.extend(children(*parent));
            next += 1;
        }
        found.split_off(1)
    }

    /// Stops it. Returns the lines that it printed at the end.
    fn stop(mut self) -> Vec<Value> {
        let (folder, processes) = (self.folder(), self.processes());
        // weir up, the service, three processes of the app.
        assert!(processes.len() >= 5, "{processes:?}");
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("signalled");
        let status = wait_for(&mut self.child);
        assert!(status.success(), "{status}: {:?}", self.errors.try_iter().collect::<Vec<_>>());
        assert!(!processes.into_iter().any(is_running), "a process is left");
        assert!(!folder.exists(), "{} is left", folder.display());
        let lines: Vec<_> =
            std::iter::from_fn(|| self.lines.recv_timeout(TEST_TIMEOUT).ok()).collect();
        lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn children(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let is_child = |pid: &Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        let stat = stat.unwrap_or_default();
        // The name is in parentheses and may contain any character; state and parent follow.
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().nth(1));
        rest.flatten() == Some(&*parent)
    };
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pids = all.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(is_child).collect()
}

fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or_default()
}

fn flood(demo: &Demo, arguments: &[&str]) -> std::process::Output {
    let arguments = [&["demo", "flood", "--jobs", demo.address("jobs")], arguments].concat();
    output_of(program().args(arguments))
}

#[test]
fn demo_runs_floods_and_leaves_nothing_behind() {
    let demo = Demo::start(&[]);
    let steady = demo.wait_for("all parts work", |report| {
        number(report, "/jobs/done_per_second") > 0.0
            && number(report, "/realtime/clients") == 20.0
            && number(report, "/realtime/delivered_per_second") > 0.0
            && number(report, "/requests/served_per_second") > 0.0
    });
    assert_eq!(steady["flood"], Value::Null);
    assert!(number(&steady, "/realtime/delay_ms_p50") > 0.0, "{steady}");
    // Far more than 16 workers can do.
    let output = flood(&demo, &["--seconds", "20", "--times", "100"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let flooded = demo.wait_for("the flood has an effect", |report| {
        number(report, "/jobs/waiting") > 300.0
            || number(report, "/requests/rejected_per_second") > 0.0
    });
    assert_eq!(flooded["flood"]["times"], 100, "{flooded}");
    let second = flood(&demo, &["--seconds", "1"]);
    assert_eq!(second.status.code(), Some(2));
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(error.contains("a flood is in progress and ends in "), "{error}");
    // The admin API has the same jobs, of the same queues.
    let folder = demo.folder();
    let queues = output_of(program().args(["jobs", "list", "--json", "--data-dir"]).arg(&folder));
    let queues: Value = serde_json::from_slice(&queues.stdout).expect("JSON");
    let names: Vec<_> =
        queues.as_array().expect("queues").iter().map(|queue| &queue["name"]).collect();
    for name in ["feed", "imports", "ingress", "mail"] {
        assert!(names.contains(&&Value::from(name)), "{names:?}");
    }
    demo.stop();
}

#[test]
fn flood_and_demo_end_with_a_summary() {
    let demo = Demo::start(&[]);
    demo.wait_for("jobs run", |report| number(report, "/jobs/done_per_second") > 0.0);
    // The address as it is printed for people.
    let jobs = format!("tcp://{}", demo.address("jobs"));
    let arguments = ["demo", "flood", "--seconds", "2", "--times", "5", "--jobs", &jobs];
    let output = output_of(program().args(arguments));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = demo.wait_for("the flood is over", |line| line["flood_summary"].is_object());
    let flood = &line["flood_summary"];
    assert_eq!((&flood["times"], &flood["flood_seconds"]), (&5.into(), &2.into()), "{flood}");
    assert!(number(flood, "/flood_jobs") > 0.0, "{flood}");
    assert_eq!((&flood["flood_jobs_lost"], &flood["flood_jobs_waiting"]), (&0.into(), &0.into()));
    assert!(number(flood, "/totals/requests_served") > 0.0, "{flood}");
    let folder = demo.folder();
    let lines = demo.stop();
    let [.., summary, stopped] = &*lines else { panic!("{lines:?}") };
    assert_eq!(summary["summary"]["floods"], 1, "{summary}");
    assert!(number(summary, "/summary/totals/jobs_done") > 0.0, "{summary}");
    assert_eq!(stopped["stopped"]["folder"], folder.to_str().expect("UTF-8"));
    assert_eq!(stopped["stopped"]["is_removed"], true);
}

#[test]
fn printed_app_can_be_used() {
    let demo = Demo::start(&[]);
    let app = &demo.ready["app"];
    assert_eq!((&app["id"], &app["key"]), (&"demo".into(), &"demo-key".into()));
    assert_eq!(app["secret"].as_str().map(str::len), Some(32));
    assert!(demo.address("realtime").ends_with("/app/demo-key?protocol=7"), "{}", demo.ready);
    demo.stop();
}

#[test]
fn demo_ends_when_its_output_is_closed() {
    let mut demo = Demo::start(&[]);
    let folder = demo.folder();
    // The thread that reads ends with the receiver at the next line, and closes the pipe.
    demo.lines = std::sync::mpsc::channel().1;
    assert!(wait_for(&mut demo.child).success());
    assert!(!folder.exists(), "{} is left", folder.display());
}

#[test]
fn console_starts_a_flood() {
    let demo = Demo::start(&[]);
    demo.wait_for("workers are connected", |report| number(report, "/jobs/done_per_second") > 0.0);
    let console = demo.address("console").parse().expect("an address");
    let page = get(console, "/", "").1;
    assert!(page.contains("action=\"/demo/flood\""), "{page}");
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
    let response = post(console, "/demo/flood", &format!("csrf={}", csrf.expect("a token")));
    assert!(response.starts_with("HTTP/1.1 303"), "{response}");
    let report = demo.wait_for("it floods", |report| !report["flood"].is_null());
    assert_eq!(report["flood"]["times"], 50);
    demo.stop();
}

#[test]
fn killed_demo_takes_its_processes_with_it() {
    let kept = tempfile::tempdir().expect("a folder");
    let data_dir = kept.path().join("demo");
    let mut demo = Demo::start(&["--data-dir", data_dir.to_str().expect("UTF-8")]);
    let processes = demo.processes();
    demo.child.kill().expect("killed");
    demo.child.wait().expect("waited");
    wait_until("all its processes end", || !processes.iter().any(|pid| is_running(*pid)));
    assert!(data_dir.join("weir.toml").exists(), "the folder that was named stays");
}

#[test]
fn occupied_port_is_named() {
    let site = Site::new("");
    // Somebody else's, or this one.
    let _occupied = TcpListener::bind("127.0.0.1:8080");
    let output = output_of(program().current_dir(site.path()).args(["demo", "--data-dir", "kept"]));
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("is in use") && error.contains("--free-ports"), "{error}");
}

#[test]
fn flood_without_a_demo_says_so() {
    let site = Site::new("");
    let unused = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound");
    let nobody = site.run(&["demo", "flood", "--jobs", &unused.to_string()]);
    assert_eq!(nobody.status.code(), Some(2));
    let weir = site.start();
    let jobs = weir.jobs().to_string();
    let output = weir.site.run(&["demo", "flood", "--jobs", &jobs]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("runs no demo"), "{error}");
    let queues: Value =
        serde_json::from_str(&weir.site.ok(&["jobs", "list", "--json"])).expect("JSON");
    assert_eq!(number(&queues, "/0/depth"), 0.0, "the request is withdrawn: {queues}");
    let output = weir.site.run(&["demo", "flood", "--jobs", &jobs, "--times", "1000"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(weir.stop().success());
}

#[test]
fn printed_settings_are_valid() {
    let site = Site::new("");
    let text = site.ok(&["demo", "--print-config"]);
    std::fs::write(site.path().join("weir.toml"), &text).expect("written");
    check(&site.path().join("weir.toml"));
    let text = site.ok(&["demo", "--print-config", "--postgres", "postgres://weir@127.0.0.1/app"]);
    std::fs::write(site.path().join("weir.toml"), &text).expect("written");
    check(&site.path().join("weir.toml"));
}

fn check(file: &Path) {
    let mut command = program();
    command.env("WEIR_DEMO_SECRET", "a-secret-of-16-characters").args(["check", "--config"]);
    let output = output_of(command.arg(file));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
