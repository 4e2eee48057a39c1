//! The service process is replaced while clients are served.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_supervisor::notify::Notify;
use weir_supervisor::requests::{ControlRequest, Requests, Sender};
use weir_supervisor::{ChildSpec, RestartPolicy, SupervisionOutcome, Supervisor};

use crate::rig::{NoEvents, path_of, read_pid, runs, wait_until};

struct Running {
    requests: Sender,
    thread: JoinHandle<SupervisionOutcome>,
}

impl Running {
    /// A shell script; its descriptors are those given, then `status`, then `life`.
    fn start(
        script: &str,
        descriptors: Vec<(String, OwnedFd)>,
        deadline: Option<Duration>,
    ) -> Self {
        Self::start_lingering(script, descriptors, deadline, None)
    }

    fn start_lingering(
        script: &str,
        descriptors: Vec<(String, OwnedFd)>,
        deadline: Option<Duration>,
        old_processes_max: Option<usize>,
    ) -> Self {
        let service = ChildSpec {
            name: "service".into(),
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: Vec::new(),
            descriptors,
            restart: RestartPolicy::default(),
            unresponsive_after: None,
            stop_deadline: Duration::from_secs(3600),
            old_processes_max,
        };
        let (requests, source) = Requests::pipe().expect("a pipe");
        let output = std::fs::File::create("/dev/null").expect("opened");
        let thread = std::thread::spawn(move || {
            let supervisor =
                Supervisor::new(vec![service], source, Notify::disabled(), output.into());
            let supervisor = match deadline {
                Some(deadline) => supervisor.replacing_service_within(deadline),
                None => supervisor,
            };
            supervisor.run(&mut NoEvents)
        });
        Self { requests, thread }
    }

    fn replace(&self) {
        self.requests.send(ControlRequest::Replace).expect("sent");
    }

    fn end(self) -> SupervisionOutcome {
        self.requests.send(ControlRequest::Stop).expect("sent");
        self.thread.join().expect("the loop ended")
    }
}

const HOUR: Option<Duration> = Some(Duration::from_secs(3600));

#[test]
fn a_service_that_cannot_run_twice_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let script = format!(
        "trap 'echo reload >> {0}' HUP; trap 'exit 0' TERM; echo start >> {0}; echo ready >&3; \
         while :; do sleep 0.01; done",
        log.display()
    );
    let running = Running::start(&script, Vec::new(), None);
    let written = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_until("the service", || written() == "start\n");
    running.replace();
    // Requests are answered in order.
    running.requests.send(ControlRequest::Reload).expect("sent");
    wait_until("the reload", || written().ends_with("reload\n"));
    assert_eq!(running.end(), SupervisionOutcome::Stopped);
    assert_eq!(written(), "start\nreload\n");
}

fn who_answers(address: SocketAddr) -> i32 {
    read_pid(TcpStream::connect(address).expect("connected")).expect("an answer")
}

/// Serves on descriptor 3 and is ready at once: connections wait in the socket meanwhile.
fn serving(before: &str) -> String {
    format!("{before} echo ready >&4; exec python3 {} fd 3 0.002", path_of("web.py").display())
}

fn listener() -> (SocketAddr, Vec<(String, OwnedFd)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    (address, vec![("http".into(), listener.into())])
}

#[test]
fn replacing_the_service_under_load_loses_no_request() {
    let (address, descriptors) = listener();
    let running = Running::start(&serving(""), descriptors, HOUR);
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    who_answers(address);
                }
            })
        })
        .collect();
    let mut present = who_answers(address);
    for _ in 0..3 {
        running.replace();
        wait_until("the old one has ended", || !runs(present));
        let next = who_answers(address);
        assert_ne!(next, present);
        present = next;
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("no request lost");
    }
    assert_eq!(running.end(), SupervisionOutcome::Stopped);
}

#[test]
fn a_failed_replacement_leaves_the_old_service_running() {
    let folder = tempfile::tempdir().expect("a folder");
    let (broken, tried) = (folder.path().join("broken"), folder.path().join("tried"));
    let before = format!("[ -e {} ] && echo $$ > {} && exit 3;", broken.display(), tried.display());
    let (address, descriptors) = listener();
    let running = Running::start(&serving(&before), descriptors, HOUR);
    let present = who_answers(address);
    std::fs::write(&broken, "").expect("written");
    running.replace();
    wait_until("the new one has failed", || has_ended(&tried));
    assert_eq!(who_answers(address), present);
    std::fs::remove_file(broken).expect("removed");
    wait_until("a sound one takes over", || {
        running.replace();
        !runs(present)
    });
    assert_ne!(who_answers(address), present);
    assert_eq!(running.end(), SupervisionOutcome::Stopped);
}

/// Whether the process that wrote its pid there is no more, not even waiting to be reaped.
fn has_ended(file: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let pid = text.trim();
    !pid.is_empty() && !Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_replacement_that_never_serves_is_killed_at_its_deadline() {
    let folder = tempfile::tempdir().expect("a folder");
    let (slow, tried) = (folder.path().join("slow"), folder.path().join("tried"));
    let before =
        format!("[ -e {} ] && echo $$ > {} && exec sleep 1000;", slow.display(), tried.display());
    let (address, descriptors) = listener();
    let running = Running::start(&serving(&before), descriptors, Some(Duration::from_millis(50)));
    let present = who_answers(address);
    std::fs::write(&slow, "").expect("written");
    running.replace();
    wait_until("the new one is killed", || has_ended(&tried));
    assert_eq!(who_answers(address), present);
    assert_eq!(running.end(), SupervisionOutcome::Stopped);
}

#[test]
fn exclusive_resources_are_handed_over_after_standby() {
    let folder = tempfile::tempdir().expect("a folder");
    let (lock, log) = (folder.path().join("lock"), folder.path().join("log"));
    let script = format!(
        "trap 'echo releases >> {log}; rmdir {lock}; exit 0' TERM; echo standby >&3; \
         until mkdir {lock} 2>/dev/null; do sleep 0.01; done; echo holds >> {log}; \
         echo ready >&3; while :; do sleep 0.01; done",
        log = log.display(),
        lock = lock.display()
    );
    let running = Running::start(&script, Vec::new(), HOUR);
    let written = || std::fs::read_to_string(&log).unwrap_or_default();
    wait_until("the first holds it", || written() == "holds\n");
    wait_until("the second holds it", || {
        running.replace();
        written().lines().count() >= 3
    });
    assert!(written().starts_with("holds\nreleases\nholds\n"), "{}", written());
    assert_eq!(running.end(), SupervisionOutcome::Stopped);
}

#[test]
fn a_successor_takes_over_from_a_dead_service() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    // Only the first ever says that it is ready.
    let script = format!(
        "trap 'echo reload $$ >> {0}' HUP; trap 'exit 0' TERM; echo $$ >> {0}; \
         [ $(wc -l < {0}) = 1 ] && echo ready >&3; while :; do sleep 0.01; done",
        log.display()
    );
    let running = Running::start(&script, Vec::new(), HOUR);
    let lines = || -> Vec<String> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    wait_until("a successor", || {
        running.replace();
        lines().len() == 2
    });
    let (first, second) = (lines().remove(0), lines().remove(1));
    let first = first.parse().expect("a pid");
    crate::rig::kill(first);
    wait_until("the first is reaped", || !Path::new(&format!("/proc/{first}")).exists());
    running.requests.send(ControlRequest::Reload).expect("sent");
    wait_until("somebody reloads", || lines().len() == 3);
    assert_eq!(lines()[2], format!("reload {second}"), "nobody else is started");
    assert_eq!(running.end(), SupervisionOutcome::Stopped);
}

#[test]
fn a_stop_also_ends_a_starting_successor() {
    let folder = tempfile::tempdir().expect("a folder");
    let starts = folder.path().join("starts");
    let script = format!(
        "trap 'exit 0' TERM; echo $$ >> {0}; [ $(wc -l < {0}) = 1 ] && echo ready >&3; \
         while :; do sleep 0.01; done",
        starts.display()
    );
    let running = Running::start(&script, Vec::new(), HOUR);
    let pids = || -> Vec<i32> {
        let text = std::fs::read_to_string(&starts).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    wait_until("a successor", || {
        running.replace();
        pids().len() == 2
    });
    let pids = pids();
    assert_eq!(running.end(), SupervisionOutcome::Stopped);
    assert!(!pids.iter().any(|pid| runs(*pid)));
}

#[test]
fn the_oldest_lingering_process_beyond_the_limit_closes_its_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let script = format!(
        "say() {{ echo \"$$ $1\" >> {0}; }}; trap 'say replaced' USR1; \
         trap 'say closes; exit 0' USR2; trap 'say stops; exit 0' TERM; say starts; \
         echo ready >&3; while :; do sleep 0.01; done",
        log.display()
    );
    let running = Running::start_lingering(&script, Vec::new(), HOUR, Some(1));
    let lines = || -> Vec<(i32, String)> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let pair = |line: &str| {
            let (pid, word) = line.split_once(' ')?;
            Some((pid.parse().ok()?, word.to_owned()))
        };
        text.lines().filter_map(pair).collect()
    };
    let count = |word: &str| lines().iter().filter(|(_, said)| said == word).count();
    for number in 0..3 {
        wait_until("it is replaced", || {
            running.replace();
            count("replaced") > number
        });
    }
    // Compared without their order in the log: processes that wait for a processor may write
    // "closes" later than younger ones.
    wait_until("all but the youngest replaced process close their streams", || {
        let said = lines();
        let pids = |event: &str| -> Vec<i32> {
            said.iter().filter(|(_, word)| word == event).map(|(pid, _)| *pid).collect()
        };
        let (started, mut closed) = (pids("starts"), pids("closes"));
        closed.sort_by_key(|pid| started.iter().position(|start| start == pid));
        closed.len() >= 2 && closed == started[..started.len() - 2]
    });
    assert_eq!(running.end(), SupervisionOutcome::Stopped);
    assert!(!lines().iter().any(|(pid, _)| runs(*pid)), "old ones end with everything");
}
