//! What a worker finds when it starts, and what shows that it serves.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use weir_supervisor::control::{ParentCommand, Vacancy, WorkerAddress, WorkerPhase};
use weir_supervisor::workers::{
    BoundBy, Fleet, GroupSpec, ListeningSocket, Readiness, ResourceLimits, SocketKind,
};

use crate::rig::{Rig, python, read_pid, script, shop};

/// Prints `text`, expanded by the shell, and lives on.
fn printing(text: &str) -> GroupSpec {
    script(&format!("echo \"{text}\"; echo up; trap 'exit 0' TERM; while :; do sleep 0.01; done"))
}

/// What the first worker has printed before `up`, without its name.
fn printed(rig: &mut Rig) -> Vec<String> {
    let worker = rig.ready(0);
    let prefix = format!("shop-0[{}] ", worker.pid);
    let output = rig.output();
    let lines = output.lines().filter_map(|line| line.strip_prefix(&prefix));
    lines.take_while(|line| *line != "up").map(str::to_owned).collect()
}

fn listening(count: usize) -> SocketKind {
    let socket = |number| {
        let descriptor = TcpListener::bind("127.0.0.1:0").expect("a port").into();
        ListeningSocket { name: format!("web{number}"), descriptor }
    };
    SocketKind::Inherited((0..count).map(socket).collect())
}

#[test]
fn inherited_sockets_are_described_by_listen_fds() {
    let mut spec = printing("$$ $LISTEN_PID $LISTEN_FDS $LISTEN_FDNAMES $BOUND");
    spec.environment.push(("BOUND".into(), "fd://{fd1}".into()));
    spec.sockets = listening(2);
    let mut rig = Rig::start(vec![spec]);
    let lines = printed(&mut rig);
    let (pid, rest) = lines[0].split_once(' ').expect("words");
    assert_eq!(rest, format!("{pid} 2 web0:web1 fd://4"));
    rig.stop_cleanly();
}

#[test]
fn a_command_with_its_own_placeholders_gets_no_listen_fds() {
    let mut spec = printing("[$LISTEN_PID$LISTEN_FDS$LISTEN_FDNAMES] $0 $1");
    spec.command.extend(["fd://{fd}".into(), "{fd0},{fd1}".into()]);
    spec.sockets = listening(2);
    let mut rig = Rig::start(vec![spec]);
    assert_eq!(printed(&mut rig), ["[] fd://3 3,4"]);
    rig.stop_cleanly();
}

#[test]
fn a_worker_has_its_folder_name_and_only_its_own_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spec = printing("$(pwd) $NAME $* [$LISTEN_FDS$LISTEN_PID$NOTIFY_SOCKET]");
    spec.folder = Some(folder.path().to_owned());
    spec.environment.push(("NAME".into(), "{name} no {index}".into()));
    spec.variables.insert("queues".into(), vec!["-q".into(), "a b".into()]);
    spec.variables.insert("concurrency".into(), vec!["25".into()]);
    spec.command.extend(["sh".into(), "-c{concurrency}".into(), "{queues}".into(), "{{x}}".into()]);
    let mut rig = Rig::start(vec![spec]);
    let place = folder.path().display();
    let lines = printed(&mut rig).join(" ");
    assert_eq!(lines, format!("{place} shop-0 no 0 -c25 -q a b {{x}} []"));
    rig.stop_cleanly();
}

#[test]
fn no_other_descriptor_of_the_parent_reaches_a_worker() {
    let nothing = std::fs::File::open("/dev/null").expect("opened");
    // Out of the way of what is handed over.
    let leak = rustix::io::fcntl_dupfd_cloexec(nothing, 300).expect("a descriptor");
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).expect("left to descendants");
    // The fifth is the folder that is being listed.
    let text = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))";
    let mut spec = shop(&["python3", "-c", text]);
    spec.sockets = listening(1);
    spec.restart.restarts_max = 0;
    let mut rig = Rig::start(vec![spec]);
    assert_eq!(rig.end(0).3, ["[0, 1, 2, 3, 4]"]);
    rig.stop_cleanly();
}

#[test]
fn a_worker_has_its_own_resource_limits_and_process_group() {
    let mut spec = printing("$(ulimit -n) $(ulimit -c) $(cut -d' ' -f1,5 /proc/$$/stat)");
    spec.resource_limits =
        ResourceLimits { open_files: Some(123), core_bytes: Some(0), address_space_bytes: None };
    let mut rig = Rig::start(vec![spec]);
    let lines = printed(&mut rig);
    let words: Vec<&str> = lines[0].split(' ').collect();
    assert_eq!(words[..2], ["123", "0"]);
    assert_eq!(words[2], words[3], "it leads a process group");
    rig.stop_cleanly();
}

#[test]
fn a_worker_runs_as_its_configured_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a worker as somebody else");
        return;
    }
    let mut spec = printing("$(id -un) $(id -gn) $(id -G) $HOME $USER");
    spec.user = Some("nobody".into());
    let mut rig = Rig::start(vec![spec]);
    let lines = printed(&mut rig);
    let words: Vec<&str> = lines[0].split(' ').collect();
    assert_eq!(words[0], "nobody");
    assert_ne!(words[1], "root");
    assert!(!words[2..words.len() - 2].contains(&"0"), "root's groups are left: {words:?}");
    assert_eq!(words[words.len() - 1], "nobody");
    rig.stop_cleanly();
}

#[test]
fn a_worker_of_another_user_binds_and_notifies_over_its_own_socket() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a worker as somebody else");
        return;
    }
    let text = "import os, socket, time\n\
                socket.socket(socket.AF_UNIX).bind('{socket}')\n\
                there = os.environ['NOTIFY_SOCKET']\n\
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'READY=1', there)\n\
                time.sleep(1000)";
    let mut spec = shop(&["python3", "-c", text]);
    spec.user = Some("nobody".into());
    spec.sockets = SocketKind::UnixSocket(BoundBy::Worker);
    spec.readiness = Readiness::Notify;
    let folder = reachable_folder();
    let mut rig = Rig::start_below(folder, vec![spec]);
    rig.ready(0);
    rig.stop_cleanly();
}

/// Temporary folders are the owner's alone; this one lets others through.
fn reachable_folder() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let mode = std::fs::Permissions::from_mode(0o711);
    std::fs::set_permissions(folder.path(), mode).expect("set");
    folder
}

#[test]
fn a_worker_can_bind_its_own_socket() {
    let mut spec = python("web.py", &["unix", "{socket}"]);
    spec.sockets = SocketKind::UnixSocket(BoundBy::Worker);
    unix_sockets_work(spec);
}

#[test]
fn a_worker_can_inherit_its_own_socket() {
    let mut spec = python("web.py", &["fd", "{fd}"]);
    spec.sockets = SocketKind::UnixSocket(BoundBy::Parent);
    unix_sockets_work(spec);
}

fn unix_sockets_work(mut spec: GroupSpec) {
    spec.processes = 2;
    let mut rig = Rig::start(vec![spec]);
    let mut workers = vec![rig.ready(0)];
    rig.command(ParentCommand::Restart { group: "shop".into(), slot: 0 }).expect("restarted");
    workers.push(rig.ready(0));
    for worker in &workers[1..] {
        let Some(WorkerAddress::Unix(path)) = &worker.address else { panic!("no socket") };
        let connection = UnixStream::connect(path).expect("connected");
        assert_eq!(read_pid(connection).expect("an answer"), worker.pid);
    }
    assert_ne!(workers[0].address, workers[1].address, "each generation has its own");
    rig.stop_cleanly();
}

#[test]
fn a_worker_can_get_its_own_port() {
    let mut spec = python("web.py", &["port", "{port}"]);
    spec.sockets = SocketKind::Port;
    spec.processes = 2;
    let mut rig = Rig::start(vec![spec]);
    let workers = rig.all_ready(2);
    let mut ports = Vec::new();
    for worker in workers {
        let Some(WorkerAddress::Port(port)) = worker.address else { panic!("no port") };
        let connection = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        assert_eq!(read_pid(connection).expect("an answer"), worker.pid);
        ports.push(port);
    }
    assert_ne!(ports[0], ports[1]);
    rig.stop_cleanly();
}

#[test]
fn a_worker_that_runs_long_enough_is_ready() {
    let mut spec = script("trap 'exit 0' TERM; while :; do sleep 0.01; done");
    spec.readiness = Readiness::Started(Duration::from_millis(20));
    let mut rig = Rig::start(vec![spec]);
    rig.ready(0);
    rig.stop_cleanly();
}

#[test]
fn sd_notify_reports_readiness_and_stopping() {
    let mut spec = python("notify.py", &["STATUS=warming up", "READY=1", "STOPPING=1"]);
    spec.readiness = Readiness::Notify;
    let mut rig = Rig::start(vec![spec]);
    let generation = rig.worker(0, &WorkerPhase::Starting).generation;
    // Each signal is sent only after the message before it: two that wait would count as one.
    let next = |rig: &mut Rig, sent: &str| {
        crate::rig::wait_until(sent, || rig.output().contains(sent));
        rig.command(ParentCommand::Signal { generation, signal: "USR1".into() }).expect("sent");
    };
    next(&mut rig, "sent 1");
    rig.ready(0);
    next(&mut rig, "sent 2");
    rig.worker(0, &WorkerPhase::Draining);
    next(&mut rig, "sent 3");
    let (_, status, _, _) = rig.end(0);
    assert_eq!(status, "exited with code 0");
    rig.worker(0, &WorkerPhase::Starting);
    rig.stop();
    rig.outcome();
}

#[test]
fn a_worker_without_watchdog_messages_is_evicted() {
    let mut spec = python("notify.py", &["READY=1"]);
    spec.readiness = Readiness::Notify;
    spec.watchdog = Some(Duration::from_millis(50));
    let mut rig = Rig::start(vec![spec]);
    rig.ready(0);
    let (_, status, reason, _) = rig.end(0);
    assert_eq!(status, "was killed by signal 9");
    assert_eq!(reason.as_deref(), Some("no sign of life within watchdog (50ms)"));
    rig.stop();
    rig.outcome();
}

#[test]
fn a_probed_worker_is_ready_when_the_service_reports_it() {
    let mut spec = python("web.py", &["port", "{port}"]);
    spec.sockets = SocketKind::Port;
    spec.readiness = Readiness::Probed;
    let mut rig = Rig::start(vec![spec]);
    let worker = rig.worker(0, &WorkerPhase::Starting);
    rig.command(ParentCommand::Ready { generation: worker.generation }).expect("believed");
    assert_eq!(rig.ready(0).pid, worker.pid);
    crate::rig::wait_until("it listens", || rig.output().contains("listening"));
    rig.stop_cleanly();
}

#[test]
fn an_unready_worker_is_killed_at_the_start_deadline() {
    let mut spec = script("while :; do sleep 0.01; done");
    spec.start_deadline = Duration::from_millis(20);
    spec.restart.restarts_max = 0;
    let mut rig = Rig::start(vec![spec]);
    let failed = rig.vacancy(0, |vacancy| matches!(vacancy, Vacancy::Failed { .. }));
    let Vacancy::Failed { reason, .. } = failed else { unreachable!() };
    let expected = "was killed by signal 9: not ready within start_deadline (20ms)";
    assert!(reason.contains(expected), "{reason}");
    rig.stop_cleanly();
}

#[test]
fn a_start_error_of_the_system_is_reported() {
    let mut spec = shop(&["/dev/null"]);
    spec.restart.restarts_max = 0;
    let mut rig = Rig::start(vec![spec]);
    let failed = rig.vacancy(0, |vacancy| matches!(vacancy, Vacancy::Failed { .. }));
    let Vacancy::Failed { reason, .. } = failed else { unreachable!() };
    assert!(reason.contains("/dev/null can't be started in .: Permission denied"), "{reason}");
    rig.stop_cleanly();
}

#[test]
fn stale_sockets_of_an_earlier_parent_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("shop");
    std::fs::create_dir(&place).expect("made");
    for name in ["1.sock", "1.notify", "notes"] {
        std::fs::write(place.join(name), "").expect("written");
    }
    Fleet::new(vec![shop(&["serve"])], folder.path()).expect("sound");
    let left = std::fs::read_dir(place).expect("a folder").map(|entry| entry.expect("one"));
    assert_eq!(left.map(|entry| entry.file_name()).collect::<Vec<_>>(), ["notes"]);
}

#[test]
fn invalid_groups_are_rejected_with_all_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut other = shop(&["serve", "{fd}"]);
    other.name = "other".parse().expect("a name");
    let error = Fleet::new(vec![shop(&[]), other], folder.path()).expect_err("mistakes");
    let text = error.to_string();
    assert!(text.contains("workers shop: command: is empty"), "{text}");
    assert!(text.contains("workers other: command: unknown placeholder {fd}"), "{text}");
    let twice = Fleet::new(vec![shop(&["a"]), shop(&["a"])], folder.path()).expect_err("twice");
    assert_eq!(twice.to_string(), "two groups of workers are called shop; rename one");
}
