//! Workers beside a service process that comes and goes.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use weir_supervisor::control::{ParentCommand, ParentReport, Used, WorkerPhase};
use weir_supervisor::notify::Notify;
use weir_supervisor::requests::{ControlRequest, Requests};
use weir_supervisor::workers::{BoundBy, Fleet, GroupSpec, Readiness, SocketKind};
use weir_supervisor::{ChildSpec, RestartPolicy, SupervisionOutcome, Supervisor};

use crate::rig::{NoEvents, Rig, kill, path_of, runs, script, wait_until};

/// What generations of the service have written: their pids, and what they were told.
fn read(log: &Path) -> (Vec<i32>, Vec<ParentReport>) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let pid = |line: &str| line.strip_prefix("service ").and_then(|pid| pid.parse().ok());
    let reports = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    (text.lines().filter_map(pid).collect(), reports)
}

fn service(log: &Path) -> ChildSpec {
    ChildSpec {
        name: "service".into(),
        program: "python3".into(),
        arguments: vec![path_of("service.py").into(), log.into()],
        environment: Vec::new(),
        descriptors: Vec::new(),
        restart: RestartPolicy {
            backoff_min: Duration::from_millis(1),
            ..RestartPolicy::default()
        },
        unresponsive_after: None,
        stop_deadline: Duration::from_secs(3600),
        old_processes_max: None,
    }
}

fn ready_workers(reports: &[ParentReport]) -> Vec<i32> {
    let ready = reports.iter().filter_map(|report| match report {
        ParentReport::Worker(state) if state.phase == WorkerPhase::Ready => Some(state.pid),
        _ => None,
    });
    ready.collect()
}

/// Workers that the service has an hour to let go of.
fn probed() -> GroupSpec {
    let program = path_of("web.py").display().to_string();
    let mut spec = crate::rig::shop(&["python3", &program, "unix", "{socket}", "0"]);
    spec.sockets = SocketKind::UnixSocket(BoundBy::Worker);
    spec.readiness = Readiness::Probed;
    spec.let_go_deadline = Duration::from_secs(3600);
    spec
}

#[test]
fn the_service_releases_workers_during_a_stop() {
    let mut rig = Rig::start(vec![probed()]);
    let generation = rig.worker(0, &WorkerPhase::Starting).generation;
    rig.command(ParentCommand::Ready { generation }).expect("it is");
    rig.ready(0);
    rig.stop();
    rig.worker(0, &WorkerPhase::Leaving);
    let refused = rig.command(ParentCommand::RestartRolling { group: "shop".into() });
    assert_eq!(refused, Err("everything is being stopped".to_owned()));
    rig.command(ParentCommand::LetGo { generation }).expect("followed");
    rig.worker(0, &WorkerPhase::Draining);
    rig.end(0);
    assert_eq!(rig.outcome().0, SupervisionOutcome::Stopped);
}

/// While the service is replaced there are two of them.
#[test]
fn a_worker_is_stopped_after_both_services_have_released_it() {
    let (mut rig, other) = Rig::start_with_another_service(vec![probed()]);
    let generation = rig.worker(0, &WorkerPhase::Starting).generation;
    rig.command(ParentCommand::Ready { generation }).expect("it is");
    rig.command(ParentCommand::Stop { group: "shop".into(), slot: Some(0) }).expect("stopped");
    rig.worker(0, &WorkerPhase::Leaving);
    rig.command(ParentCommand::LetGo { generation }).expect("noted");
    // Reports come in order: one that it drains would come before this answer.
    let order = ParentCommand::Signal { generation, signal: "WINCH".into() };
    rig.command(order).expect("it is still there");
    assert!(!rig.has_seen(|report| {
        matches!(report, ParentReport::Worker(state) if state.phase == WorkerPhase::Draining)
    }));
    // The other one goes: so it sends nothing more.
    drop(other);
    rig.worker(0, &WorkerPhase::Draining);
    rig.end(0);
    rig.stop_cleanly();
}

/// What the service is told others use of a worker.
fn elsewhere(rig: &mut Rig, generation: u64, expected: Used) {
    rig.find(|report| {
        (*report == ParentReport::Elsewhere { generation, used: expected }).then_some(())
    });
}

#[test]
fn the_usage_of_a_replaced_service_is_reported_to_the_other() {
    let (mut rig, mut other) = Rig::start_with_another_service(vec![probed()]);
    let generation = rig.worker(0, &WorkerPhase::Starting).generation;
    let used = Used { requests: 1, streams: 3 };
    let request = weir_supervisor::control::ParentRequest {
        id: 1,
        command: ParentCommand::Used { generation, used },
    };
    let line = weir_supervisor::control::encode(&request).expect("encoded");
    other.write_all(&line).expect("written");
    elsewhere(&mut rig, generation, used);
    drop(other);
    elsewhere(&mut rig, generation, Used::default());
    rig.command(ParentCommand::Ready { generation }).expect("it is");
    rig.stop_cleanly();
}

#[test]
fn workers_survive_the_service_and_are_reported_to_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let ended = folder.path().join("ended");
    let worker = script(&format!(
        "trap 'echo worker >> {}; exit 0' TERM; echo up; while :; do sleep 0.01; done",
        ended.display()
    ));
    let fleet = Fleet::new(vec![worker], &folder.path().join("run")).expect("sound");
    let (requests, source) = Requests::pipe().expect("a pipe");
    let output = std::fs::File::create(folder.path().join("output")).expect("a file");
    let supervisor =
        Supervisor::new(vec![service(&log)], source, Notify::disabled(), output.into());
    let thread = std::thread::spawn(move || {
        supervisor
            .with_workers(fleet)
            .replacing_service_within(weir_supervisor::supervise::REPLACE_DEADLINE)
            .run(&mut NoEvents)
    });

    wait_until("a ready worker", || !ready_workers(&read(&log).1).is_empty());
    let (services, reports) = read(&log);
    let worker = ready_workers(&reports)[0];
    std::fs::write(&log, "").expect("emptied");
    kill(services[0]);
    wait_until("the next service knows", || !ready_workers(&read(&log).1).is_empty());
    let (next_services, reports) = read(&log);
    assert_ne!(next_services, services);
    assert_eq!(reports[0], ParentReport::SnapshotBegins);
    assert_eq!(ready_workers(&reports), [worker], "the same worker goes on");
    assert!(runs(worker));

    std::fs::write(&log, "").expect("emptied");
    requests.send(ControlRequest::Replace).expect("sent");
    wait_until("the one after that knows", || !ready_workers(&read(&log).1).is_empty());
    wait_until("the one before has ended", || !runs(next_services[0]));
    assert_ne!(read(&log).0, next_services);
    assert!(runs(worker), "the same worker goes on");

    requests.send(ControlRequest::Stop).expect("sent");
    let outcome = thread.join().expect("the loop ended");
    assert_eq!(outcome, SupervisionOutcome::Killed, "Python without a handler dies of SIGTERM");
    assert_eq!(std::fs::read_to_string(ended).expect("read"), "worker\n");
    assert!(!runs(worker));
}

#[test]
fn workers_are_stopped_before_or_after_the_service_as_configured() {
    let folder = tempfile::tempdir().expect("a folder");
    let ends = folder.path().join("ends");
    let release = folder.path().join("release");
    let worker = script(&format!(
        "trap 'echo worker >> {}; exit 0' TERM; echo up; while :; do sleep 0.01; done",
        ends.display()
    ));
    // It takes a moment for that.
    let mut first = script(&format!(
        "trap 'sleep 0.2; echo first >> {}; exit 0' TERM; echo up too; while :; do sleep 0.01; done",
        ends.display()
    ));
    first.name = "mailers".parse().expect("a name");
    first.ends_before_service = true;
    // It ends, but not before it is released.
    let text = format!(
        "trap 'echo asked >> {0}' TERM; echo trapped; echo ready >&3; while ! [ -e {1} ]; do sleep 0.01; done; \
         echo service >> {0}",
        ends.display(),
        release.display()
    );
    let mut service = service(Path::new("unused"));
    service.program = "/bin/sh".into();
    service.arguments = vec!["-c".into(), text.into()];
    let fleet = Fleet::new(vec![worker, first], &folder.path().join("run")).expect("sound");
    let (requests, source) = Requests::pipe().expect("a pipe");
    let output = folder.path().join("output");
    let to = std::fs::File::create(&output).expect("a file");
    let supervisor = Supervisor::new(vec![service], source, Notify::disabled(), to.into());
    let thread = std::thread::spawn(move || supervisor.with_workers(fleet).run(&mut NoEvents));
    let printed = || std::fs::read_to_string(&output).unwrap_or_default();
    let written = || std::fs::read_to_string(&ends).unwrap_or_default();
    wait_until("a worker", || printed().contains("up\n"));
    wait_until("the other one", || printed().contains("up too"));
    wait_until("the service's trap", || printed().contains("trapped"));
    requests.send(ControlRequest::Stop).expect("sent");
    wait_until("the service is asked", || written() == "first\nasked\n");
    std::fs::write(release, "").expect("written");
    assert_eq!(thread.join().expect("the loop ended"), SupervisionOutcome::Stopped);
    assert_eq!(written(), "first\nasked\nservice\nworker\n");
}

#[test]
fn a_second_stop_request_does_not_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = script("trap '' TERM; echo up; while :; do sleep 0.01; done");
    first.ends_before_service = true;
    first.stop_deadline = Duration::from_secs(3600);
    let fleet = Fleet::new(vec![first], &folder.path().join("run")).expect("sound");
    let (requests, source) = Requests::pipe().expect("a pipe");
    let output = folder.path().join("output");
    let to = std::fs::File::create(&output).expect("a file");
    let log = folder.path().join("log");
    let supervisor = Supervisor::new(vec![service(&log)], source, Notify::disabled(), to.into());
    let thread = std::thread::spawn(move || supervisor.with_workers(fleet).run(&mut NoEvents));
    let printed = || std::fs::read_to_string(&output).unwrap_or_default();
    wait_until("a worker", || printed().contains("up"));
    wait_until("the service", || !read(&log).0.is_empty());
    requests.send(ControlRequest::Stop).expect("sent");
    requests.send(ControlRequest::Stop).expect("sent");
    assert_eq!(thread.join().expect("the loop ended"), SupervisionOutcome::Killed);
    assert!(!runs(read(&log).0[0]));
}
