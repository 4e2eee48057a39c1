//! Groups of real processes, through the control channel.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_supervisor::SupervisionOutcome;
use weir_supervisor::control::{ParentCommand, ParentReport, RollingState, Vacancy, WorkerPhase};
use weir_supervisor::workers::{
    Dump, GroupSpec, ListeningSocket, REASON_BYTES_MAX, Readiness, SocketKind,
};

use crate::rig::{Rig, kill, python, read_pid, runs, script, wait_until};

/// Ends when asked to.
const GOOD: &str = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";

fn group() -> String {
    "shop".to_owned()
}

fn rolling(rig: &mut Rig) -> Result<(), String> {
    rig.find(|report| match report {
        ParentReport::Group(state) => match state.rolling.clone()? {
            RollingState::Running { .. } => None,
            RollingState::Finished => Some(Ok(())),
            RollingState::Failed { reason } => Some(Err(reason)),
        },
        _ => None,
    })
}

/// Web workers that share one listening socket.
fn web(listener: &TcpListener, work: &str) -> GroupSpec {
    let mut spec = python("web.py", &["fd", "{fd}", work]);
    let descriptor = listener.try_clone().expect("a descriptor").into();
    spec.sockets = SocketKind::Inherited(vec![ListeningSocket { name: "http".into(), descriptor }]);
    spec
}

#[test]
fn a_killed_worker_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let mut spec = web(&listener, "0");
    spec.processes = 2;
    let mut rig = Rig::start(vec![spec]);
    let first = rig.all_ready(2).remove(0);
    kill(first.pid);
    let (ended, status, reason, _) = rig.end(0);
    assert_eq!((ended.generation, status.as_str()), (first.generation, "was killed by signal 9"));
    assert_eq!(reason, None);
    let second = rig.ready(0);
    assert_ne!(first.generation, second.generation);
    assert_ne!(first.pid, second.pid);
    let answers = read_pid(TcpStream::connect(address).expect("connected")).expect("an answer");
    assert_ne!(answers, first.pid);
    rig.stop_cleanly();
}

#[test]
fn a_crash_loop_is_reported_with_its_last_lines_and_affects_no_other() {
    let mut bad = script("echo starting; echo no such database >&2; exit 7");
    bad.name = "bad".parse().expect("a name");
    let mut rig = Rig::start(vec![bad, script(GOOD)]);
    let (name, vacancy) = rig.find(|report| match report {
        ParentReport::Slot(state) => match &state.vacancy {
            Some(Vacancy::Failed { reason, retry_in_ms }) => {
                Some((state.group.clone(), (reason.clone(), *retry_in_ms)))
            }
            _ => None,
        },
        _ => None,
    });
    assert_eq!(name, "bad");
    let expected = "crash loop, 4 deaths in a row: bad-0 exited with code 7; its last lines:\
                    \n  | starting\n  | no such database";
    assert_eq!(vacancy, (expected.to_owned(), 3_600_000));
    rig.command(ParentCommand::Start { group: "bad".into(), slot: None }).expect("started again");
    rig.find(|report| match report {
        ParentReport::Worker(state) if state.group == "bad" => Some(()),
        _ => None,
    });
    let restarted = rig.command(ParentCommand::Restart { group: group(), slot: 0 });
    assert_eq!(restarted, Ok(()), "the other group goes on");
    rig.stop();
    assert_eq!(rig.outcome().0, SupervisionOutcome::Stopped);
}

#[test]
fn the_last_lines_are_kept_of_much_output() {
    // Written at once, so that most of it is still to be read when the worker has ended.
    let mut spec = script("seq -f 'line %g' 0 2999; exit 3");
    spec.restart.restarts_max = 0;
    let mut rig = Rig::start(vec![spec]);
    let (worker, _, _, last_lines) = rig.end(0);
    assert_eq!(last_lines.last().map(String::as_str), Some("line 2999"));
    let prefix = format!("shop-0[{}] line ", worker.pid);
    wait_until("all lines", || rig.output().lines().count() == 3_000);
    assert!(rig.output().lines().all(|line| line.starts_with(&prefix)));
    rig.stop_cleanly();
}

#[test]
fn a_missing_worker_program_is_named_in_the_error() {
    let mut spec = script("");
    spec.command = vec!["no-such-server".into()];
    spec.restart.restarts_max = 0;
    let mut rig = Rig::start(vec![spec]);
    let failed = rig.vacancy(0, |vacancy| matches!(vacancy, Vacancy::Failed { .. }));
    let Vacancy::Failed { reason, .. } = failed else { unreachable!() };
    let expected = "shop-0 no-such-server is in no folder of PATH";
    assert!(reason.contains(expected), "{reason}");
    rig.stop();
    assert_eq!(rig.outcome().0, SupervisionOutcome::Stopped);
}

#[test]
fn a_rolling_restart_under_load_loses_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let mut spec = web(&listener, "0.002");
    spec.processes = 3;
    let mut rig = Rig::start(vec![spec]);
    let before: Vec<i32> = rig.all_ready(3).iter().map(|worker| worker.pid).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                let mut pids = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let connection = TcpStream::connect(address).expect("connected");
                    pids.push(read_pid(connection).expect("an answer"));
                }
                pids
            })
        })
        .collect();
    for _ in 0..2 {
        rig.command(ParentCommand::RestartRolling { group: group() }).expect("begun");
        assert_eq!(rolling(&mut rig), Ok(()));
    }
    is_over.store(true, Ordering::Relaxed);
    let pids: Vec<i32> =
        clients.into_iter().flat_map(|client| client.join().expect("no request lost")).collect();
    assert!(pids.iter().any(|pid| !before.contains(pid)), "nobody new has answered");
    assert!(before.iter().all(|pid| !runs(*pid)), "somebody old is still there");
    rig.stop_cleanly();
}

#[test]
fn a_rolling_restart_keeps_the_old_worker_of_a_failed_replacement() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken");
    let text = format!("[ -e {} ] && echo new code is broken && exit 3; {GOOD}", broken.display());
    let mut spec = script(&text);
    spec.processes = 2;
    let mut rig = Rig::start(vec![spec]);
    let before: Vec<i32> = rig.all_ready(2).iter().map(|worker| worker.pid).collect();
    std::fs::write(broken, "").expect("written");
    rig.command(ParentCommand::RestartRolling { group: group() }).expect("begun");
    let failed = rig.find(|report| match report {
        ParentReport::Slot(state) => state.replacement_failed.clone(),
        _ => None,
    });
    let expected = "shop-0 exited with code 3; its last lines:\n  | new code is broken";
    assert_eq!(failed, expected);
    assert_eq!(rolling(&mut rig), Err(format!("slot 0: {expected}")));
    assert!(before.iter().all(|pid| runs(*pid)), "the old ones stay");
    rig.stop_cleanly();
}

#[test]
fn a_worker_that_ignores_its_stop_signal_is_killed_with_its_process_group() {
    let text = "trap '' TERM; sleep 1000 & echo child $!; echo up; wait; while :; do wait; done";
    let mut spec = script(text);
    spec.stop_deadline = Duration::from_millis(1);
    let mut rig = Rig::start(vec![spec]);
    let worker = rig.ready(0);
    let output = rig.output();
    let child = output.lines().find_map(|line| line.split_once("child ")).expect("a line").1;
    let child: i32 = child.trim().parse().expect("a pid");
    assert!(runs(worker.pid) && runs(child));
    rig.command(ParentCommand::Stop { group: group(), slot: Some(0) }).expect("asked to stop");
    let (_, status, reason, _) = rig.end(0);
    assert_eq!(status, "was killed by signal 9");
    assert_eq!(reason.as_deref(), Some("still running at its stop_deadline (1ms)"));
    assert_eq!(rig.vacancy(0, |_| true), Vacancy::Stopped);
    wait_until("the end of the worker's child", || !runs(child));
    rig.stop_cleanly();
}

#[test]
fn a_killed_worker_takes_along_its_descendants_in_other_sessions() {
    let text = "trap '' TERM; setsid sh -c 'sleep 1000 & echo child $!; wait' & \
                while :; do wait; done";
    let mut spec = script(text);
    spec.readiness = Readiness::Line("child".into());
    spec.stop_deadline = Duration::from_millis(1);
    let mut rig = Rig::start(vec![spec]);
    let worker = rig.ready(0);
    let output = rig.output();
    let child = output.lines().find_map(|line| line.split_once("child ")).expect("a line").1;
    let child: i32 = child.trim().parse().expect("a pid");
    assert!(runs(worker.pid) && runs(child));
    rig.command(ParentCommand::Stop { group: group(), slot: Some(0) }).expect("asked to stop");
    let (_, status, _, _) = rig.end(0);
    assert_eq!(status, "was killed by signal 9");
    wait_until("the end of the child's child in another session", || !runs(child));
    rig.stop_cleanly();
}

#[test]
fn processes_that_a_worker_leaves_behind_are_killed() {
    let mut rig = Rig::start(vec![script("sleep 1000 & echo child $!; echo up; wait")]);
    let worker = rig.ready(0);
    let output = rig.output();
    let child = output.lines().find_map(|line| line.split_once("child ")).expect("a line").1;
    let child: i32 = child.trim().parse().expect("a pid");
    kill(worker.pid);
    rig.end(0);
    wait_until("the end of the worker's child", || !runs(child));
    rig.stop();
    assert_eq!(
        rig.outcome().0,
        SupervisionOutcome::Stopped,
        "sh without a trap dies of SIGTERM in peace"
    );
}

#[test]
fn an_eviction_dumps_first_and_then_starts_a_new_worker() {
    let text = "trap 'echo stack of the stuck' USR1; trap '' TERM; echo up; \
                while :; do sleep 0.01; done";
    let mut spec = script(text);
    spec.stop_deadline = Duration::ZERO;
    let wait = Duration::from_millis(300);
    spec.dump = Some(Dump { signal: "USR1".parse().expect("a signal"), wait });
    let mut rig = Rig::start(vec![spec]);
    let first = rig.ready(0);
    let evict = |generation| ParentCommand::Evict { generation, reason: "request of 30 s".into() };
    rig.command(evict(first.generation)).expect("evicted");
    rig.worker(0, &WorkerPhase::Evicting);
    let (_, status, reason, last_lines) = rig.end(0);
    assert_eq!(status, "was killed by signal 9");
    assert_eq!(reason.as_deref(), Some("request of 30 s"));
    assert_eq!(last_lines, ["up", "stack of the stuck"]);
    let second = rig.ready(0);
    let refused = rig.command(evict(first.generation)).expect_err("it is gone");
    assert_eq!(refused, format!("generation {} is not there (any more)", first.generation));
    let reason = "é".repeat(REASON_BYTES_MAX);
    let long = ParentCommand::Evict { generation: second.generation, reason };
    rig.command(long).expect("evicted");
    let (_, _, reason, _) = rig.end(0);
    assert_eq!(reason.map(|reason| reason.len()), Some(REASON_BYTES_MAX));
    rig.ready(0);
    rig.stop();
    assert_eq!(rig.outcome().0, SupervisionOutcome::Killed);
}

#[test]
fn groups_are_scaled_up_and_down() {
    let mut rig = Rig::start(vec![script(GOOD)]);
    rig.ready(0);
    rig.command(ParentCommand::Scale { group: group(), processes: 3 }).expect("scaled");
    rig.ready(2);
    rig.command(ParentCommand::Scale { group: group(), processes: 1 }).expect("scaled");
    assert_eq!(rig.vacancy(2, |it| *it == Vacancy::Removed), Vacancy::Removed);
    let refused = rig.command(ParentCommand::Stop { group: group(), slot: Some(2) });
    assert_eq!(refused, Err("there is no slot 2".into()));
    let refused = rig.command(ParentCommand::Scale { group: group(), processes: 100_000 });
    assert_eq!(refused, Err("100000 are more than the 1000 of one group".into()));
    rig.stop_cleanly();
}

#[test]
fn a_paused_group_starts_no_worker_until_it_is_resumed() {
    let mut rig = Rig::start(vec![script(GOOD)]);
    let worker = rig.ready(0);
    rig.command(ParentCommand::Pause { group: group() }).expect("paused");
    kill(worker.pid);
    rig.end(0);
    let refused = rig.command(ParentCommand::RestartRolling { group: group() });
    assert_eq!(refused, Err("the group is paused; resume it first".into()));
    rig.command(ParentCommand::Resume { group: group() }).expect("resumed");
    assert!(rig.ready(0).generation > worker.generation);
    rig.stop_cleanly();
}

#[test]
fn malformed_requests_are_rejected_with_a_reason() {
    let mut rig = Rig::start(vec![script(GOOD)]);
    let generation = rig.ready(0).generation;
    rig.send(b"{\"id\":1}\n");
    let reason = rig.find(|report| match report {
        ParentReport::Refused { id: None, reason } => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.starts_with("not a request: missing field `command`"), "{reason}");
    let unknown = ParentCommand::Pause { group: "shopp".into() };
    assert_eq!(rig.command(unknown), Err("there is no group of workers \"shopp\"".into()));
    let refused = rig.command(ParentCommand::Ready { generation });
    assert_eq!(refused, Err("workers shop are not probed: they say themselves".into()));
    let refused = rig.command(ParentCommand::Signal { generation, signal: "KILL".into() });
    assert!(refused.expect_err("refused").starts_with("\"KILL\" is no signal for workers"));
    rig.stop_cleanly();
}

#[test]
fn a_flood_of_output_blocks_neither_the_parent_nor_other_workers() {
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let mut flood = script("trap '' TERM; echo up; while :; do echo more and more; done");
    flood.name = "flood".parse().expect("a name");
    flood.stop_deadline = Duration::ZERO;
    // Nobody reads the parent's output, so lines can't show that a worker is ready.
    let mut good = script(GOOD);
    good.readiness = Readiness::Started(Duration::from_millis(1));
    flood.readiness = good.readiness.clone();
    let mut rig = Rig::start_writing_to(vec![flood, good], writer.into());
    for _ in 0..3 {
        rig.command(ParentCommand::Restart { group: group(), slot: 0 })
            .or_else(ignore_busy)
            .expect("ok");
        rig.find(|report| match report {
            ParentReport::Worker(state) if state.group == "shop" => {
                matches!(state.phase, WorkerPhase::Ended { .. }).then_some(())
            }
            _ => None,
        });
    }
    rig.stop();
    assert_eq!(rig.outcome().0, SupervisionOutcome::Killed, "the flood ignores its signal");
}

/// A worker that was just started may not be settled yet.
fn ignore_busy(reason: String) -> Result<(), String> {
    if reason.contains("being replaced") { Ok(()) } else { Err(reason) }
}

#[test]
fn a_second_stop_request_kills_workers_at_once() {
    let mut rig = Rig::start(vec![script("trap '' TERM; echo up; while :; do sleep 0.01; done")]);
    let worker = rig.ready(0);
    rig.stop();
    rig.worker(0, &WorkerPhase::Draining);
    let refused = rig.command(ParentCommand::Start { group: group(), slot: None });
    assert_eq!(refused, Err("everything is being stopped".into()));
    rig.stop();
    let (_, _, reason, _) = rig.end(0);
    assert_eq!(reason.as_deref(), Some("asked to end at once"));
    assert_eq!(rig.outcome().0, SupervisionOutcome::Killed, "the deadline is an hour away");
    assert!(!runs(worker.pid));
}
