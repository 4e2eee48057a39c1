use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_supervisor::notify::Notify;
use weir_supervisor::requests::{ControlRequest, Requests, Sender};
use weir_supervisor::supervise::{Events, SupervisionOutcome, Supervisor};
use weir_supervisor::workers::FailedGroup;
use weir_supervisor::{ChildSpec, RestartPolicy};

/// What a script may use: its descriptors are those of the spec, then `status`, then `life`.
fn child(script: &str, descriptors: Vec<(String, OwnedFd)>) -> ChildSpec {
    ChildSpec {
        name: "script".into(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("GREETING".into(), "hello".into())],
        descriptors,
        restart: RestartPolicy {
            backoff_min: Duration::from_millis(1),
            backoff_max: Duration::from_millis(5),
            restarts_max: 3,
            healthy_after: Duration::from_secs(3600),
        },
        unresponsive_after: None,
        stop_deadline: Duration::from_secs(3600),
        old_processes_max: None,
    }
}

struct Tell(mpsc::Sender<&'static str>);

impl Events for Tell {
    fn ready(&mut self, _: &[FailedGroup]) {
        let _ = self.0.send("ready");
    }

    fn reload(&mut self) -> bool {
        let _ = self.0.send("reload");
        true
    }
}

struct Running {
    requests: Sender,
    events: mpsc::Receiver<&'static str>,
    thread: JoinHandle<SupervisionOutcome>,
}

impl Running {
    fn start(children: Vec<ChildSpec>) -> Self {
        let nowhere = std::fs::File::create("/dev/null").expect("opened");
        Self::start_writing_to(children, nowhere.into())
    }

    fn start_writing_to(children: Vec<ChildSpec>, output: OwnedFd) -> Self {
        let (requests, source) = Requests::pipe().expect("a pipe");
        let (tell, events) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            Supervisor::new(children, source, Notify::disabled(), output).run(&mut Tell(tell))
        });
        Self { requests, events, thread }
    }

    fn wait_for(&self, event: &str) {
        let next = self.events.recv_timeout(Duration::from_secs(60)).expect("an event");
        assert_eq!(next, event);
    }

    fn stop(&self) {
        self.requests.send(ControlRequest::Stop).expect("sent");
    }

    fn outcome(self) -> SupervisionOutcome {
        self.thread.join().expect("the loop ended")
    }
}

/// Lines that children append to a file, awaited with a bounded number of looks.
fn wait_for_lines(path: &Path, count: usize) -> Vec<String> {
    for _ in 0..6_000 {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines.len() >= count {
            return lines;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{count} lines never came to {}", path.display());
}

#[test]
fn a_child_becomes_ready_and_ends_on_request() {
    let script = "trap 'exit 0' TERM; echo ready >&3; while :; do sleep 0.01; done";
    let running = Running::start(vec![child(script, Vec::new())]);
    running.wait_for("ready");
    running.stop();
    assert_eq!(running.outcome(), SupervisionOutcome::Stopped);
}

#[test]
fn readiness_requires_all_children() {
    let script = "trap 'exit 0' TERM; echo ready >&3; while :; do sleep 0.01; done";
    let running = Running::start(vec![child(script, Vec::new()), child(script, Vec::new())]);
    running.wait_for("ready");
    running.stop();
    assert_eq!(running.outcome(), SupervisionOutcome::Stopped);
}

#[test]
fn a_listening_socket_outlives_the_process_that_serves_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("generations");
    // Descriptor 3 is the socket, 4 the status pipe. Every generation dies until told otherwise.
    let script = format!(
        "echo $WEIR_DESCRIPTORS $GREETING >> {0}; echo ready >&4; \
        while [ $(wc -l < {0}) -ge 3 ]; do sleep 0.01; done; kill -9 $$",
        log.display()
    );
    let running = Running::start(vec![child(&script, vec![("jobs".into(), listener.into())])]);
    running.wait_for("ready");
    let lines = wait_for_lines(&log, 3);
    assert!(lines.iter().all(|line| line == "jobs=3,status=4,life=5 hello"), "{lines:?}");
    for _ in 0..10 {
        TcpStream::connect(address).expect("connects while nobody serves");
    }
    running.stop();
    assert_eq!(running.outcome(), SupervisionOutcome::Killed, "sh without a trap dies of SIGTERM");
}

#[test]
fn a_crash_loop_is_given_up_with_the_last_lines() {
    let script = "echo ready >&3; echo the reason >&2; exit 7";
    let running = Running::start(vec![child(script, Vec::new())]);
    let SupervisionOutcome::GaveUp(text) = running.outcome() else { panic!("not given up") };
    assert!(text.starts_with("script exited with code 7, 4 deaths in a row: crash loop"), "{text}");
    assert!(text.ends_with("; its last lines:\n  | the reason"), "{text}");
}

#[test]
fn a_child_that_never_was_ready_is_not_restarted() {
    let running = Running::start(vec![child("echo no such disk; exit 2", Vec::new())]);
    let expected =
        "script exited with code 2 before it was ready; its last lines:\n  | no such disk";
    assert_eq!(running.outcome(), SupervisionOutcome::GaveUp(expected.into()));
}

#[test]
fn a_missing_program_is_named_in_the_error() {
    let mut spec = child("", Vec::new());
    spec.program = "/nonexistent/weir".into();
    let SupervisionOutcome::GaveUp(text) = Running::start(vec![spec]).outcome() else {
        panic!("not given up")
    };
    assert!(text.starts_with("script: /nonexistent/weir can't be started:"), "{text}");
}

#[test]
fn a_child_that_ignores_sigterm_is_killed_at_the_deadline() {
    let script = "trap '' TERM; echo ready >&3; while :; do sleep 0.01; done";
    let mut spec = child(script, Vec::new());
    spec.stop_deadline = Duration::from_millis(1);
    let running = Running::start(vec![spec]);
    running.wait_for("ready");
    running.stop();
    assert_eq!(running.outcome(), SupervisionOutcome::Killed);
}

#[test]
fn a_second_stop_request_kills_at_once() {
    let script = "trap '' TERM; echo ready >&3; while :; do sleep 0.01; done";
    let running = Running::start(vec![child(script, Vec::new())]);
    running.wait_for("ready");
    running.stop();
    running.stop();
    assert_eq!(running.outcome(), SupervisionOutcome::Killed, "the deadline is an hour away");
}

#[test]
fn a_silent_child_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("generations");
    let log = log.display();
    // The first generation ends by the abort, the second one only by the kill behind it.
    let script = format!(
        "echo generation >> {log}; \
         case $(wc -l < {log}) in \
         1) echo ready >&3; while :; do sleep 0.01; done;; \
         2) trap 'echo aborted >> {log}' ABRT; echo ready >&3; while :; do sleep 0.01; done;; \
         *) while :; do echo ready >&3; echo alive >&3; sleep 0.01; done;; \
         esac"
    );
    let mut spec = child(&script, Vec::new());
    // Enough for a shell to get where it says "ready" and to hear the abort, on a busy machine.
    spec.unresponsive_after = Some(Duration::from_secs(2));
    let running = Running::start(vec![spec]);
    let lines = wait_for_lines(&folder.path().join("generations"), 4);
    assert_eq!(lines[..4], ["generation", "generation", "aborted", "generation"]);
    running.stop();
    assert!(matches!(running.outcome(), SupervisionOutcome::Stopped | SupervisionOutcome::Killed));
}

#[test]
fn a_reload_reaches_the_child_as_sighup() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("reloads");
    let script = format!(
        "trap 'echo again >> {}' HUP; trap 'exit 0' TERM; echo ready >&3; \
         while :; do sleep 0.01; done",
        log.display()
    );
    let running = Running::start(vec![child(&script, Vec::new())]);
    running.wait_for("ready");
    running.requests.send(ControlRequest::Reload).expect("sent");
    running.wait_for("reload");
    assert_eq!(wait_for_lines(&log, 1), ["again"]);
    running.stop();
    assert_eq!(running.outcome(), SupervisionOutcome::Stopped);
}

#[test]
fn a_child_receives_signals_that_its_parent_ignores() {
    // As `nohup` does, and a shell for what it starts in the background.
    let itself = std::env::current_exe().expect("a path");
    let script =
        "trap '' HUP INT; exec \"$0\" --exact supervise::a_reload_reaches_the_child_as_sighup";
    let ran = std::process::Command::new("sh").args(["-c", script]).arg(itself).output();
    let ran = ran.expect("started");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}

#[test]
fn all_output_is_forwarded_before_the_exit_is_reported() {
    let script = "echo ready >&3; i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; \
                  echo last >&2; exit 3";
    let mut spec = child(script, Vec::new());
    spec.restart.restarts_max = 0;
    let SupervisionOutcome::GaveUp(text) = Running::start(vec![spec]).outcome() else {
        panic!("not given up")
    };
    assert!(text.ends_with("| line 1999\n  | last"), "{text}");
}

#[test]
fn unread_output_blocks_the_child_and_not_the_parent() {
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let script = "trap '' HUP TERM; echo ready >&3; while :; do echo more and more; done";
    let running = Running::start_writing_to(vec![child(script, Vec::new())], writer.into());
    running.wait_for("ready");
    running.requests.send(ControlRequest::Reload).expect("sent");
    running.wait_for("reload");
    running.stop();
    running.stop();
    assert_eq!(running.outcome(), SupervisionOutcome::Killed);
}
