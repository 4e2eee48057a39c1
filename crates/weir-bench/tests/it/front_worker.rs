//! `weir-bench front-worker`: that it is what a worker is, on every kind of socket.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd, pread, pwrite};

const PATIENCE: Duration = Duration::from_secs(20);

/// Killed when it is dropped.
struct Worker {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
        command.arg("front-worker").args(arguments);
        Self::spawn(&mut command)
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// From the line that says where it listens.
    fn address(&mut self) -> String {
        let line = self.line();
        line.strip_prefix("listening on ").unwrap_or_else(|| panic!("'{line}'")).to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended, as some tests want.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (pause, mut left) = (Duration::from_millis(10), PATIENCE);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(!left.is_zero(), "{what}: not within {PATIENCE:?}");
        sleep(pause);
        left = left.saturating_sub(pause);
    }
}

fn ask(stream: &mut (impl Read + Write), microseconds: u64) {
    write!(stream, "GET /sleep?us={microseconds} HTTP/1.1\r\nHost: x\r\n\r\n").expect("sent");
}

/// With patience for an answer.
fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// The same, of a unix socket.
fn connect_unix(path: &Path) -> UnixStream {
    let stream = until("it listens", || UnixStream::connect(path).ok());
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// An answer to the end of the connection.
fn answer(mut stream: impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

fn worker_of(answer: &str) -> &str {
    let line = answer.lines().find_map(|line| line.strip_prefix("X-Worker: "));
    line.unwrap_or_else(|| panic!("no name: {answer}"))
}

#[test]
fn an_answer_names_the_process_and_ends_the_connection() {
    let mut worker = Worker::start(&["--port", "0"]);
    let mut stream = connect(&worker.address());
    ask(&mut stream, 0);
    let answer = answer(stream);
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"),
        "{answer}"
    );
    assert_eq!(worker_of(&answer), worker.child.id().to_string());
}

#[test]
fn connections_are_kept_where_that_is_asked_for() {
    let mut worker = Worker::start(&["--port", "0", "--keep-alive", "--name", "w"]);
    let address = worker.address();
    let mut streams = [0, 1].map(|_| connect(&address));
    for round in 0..4 {
        let stream = &mut streams[round % 2];
        ask(stream, 100);
        let mut answer = [0; 512];
        let bytes = stream.read(&mut answer).expect("answered");
        let text = String::from_utf8_lossy(&answer[..bytes]).into_owned();
        assert!(text.contains("Connection: keep-alive") && worker_of(&text) == "w", "{text}");
    }
}

#[test]
fn a_worker_serves_one_request_at_a_time() {
    let mut worker = Worker::start(&["--port", "0"]);
    let address = worker.address();
    let mut first = connect(&address);
    ask(&mut first, 60_000_000);
    let mut second = connect(&address);
    ask(&mut second, 0);
    second.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    let nothing = second.read(&mut [0; 16]).expect_err("the worker sleeps");
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn processes_share_one_port_or_have_a_socket_each() {
    let mut shared = Worker::start(&["--port", "0", "--processes", "3"]);
    let address = shared.address();
    assert_eq!(shared.line(), "3 workers");
    let mut stream = connect(&address);
    ask(&mut stream, 0);
    assert_ne!(worker_of(&answer(stream)), shared.child.id().to_string());

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("{index}.sock");
    let mut own = Worker::start(&["--socket", path.to_str().expect("text"), "--processes", "3"]);
    assert_eq!(own.line(), "3 workers");
    let mut names = Vec::new();
    for index in 0..3 {
        let path = folder.path().join(format!("{index}.sock"));
        let mut stream = connect_unix(&path);
        ask(&mut stream, 0);
        names.push(worker_of(&answer(stream)).to_owned());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn workers_end_with_the_process_that_started_them() {
    let mut parent = Worker::start(&["--port", "0", "--processes", "2"]);
    let address = parent.address();
    assert_eq!(parent.line(), "2 workers");
    // SIGKILL: it can't tell them.
    parent.child.kill().expect("killed");
    parent.child.wait().expect("ended");
    until("nobody listens", || TcpStream::connect(&address).err());
}

fn inheritable(fd: &OwnedFd) -> i32 {
    fcntl_setfd(fd, FdFlags::empty()).expect("set");
    fd.as_fd().as_raw_fd()
}

/// A worker that finds a listening socket as descriptor 3, as its starter announces.
fn inheriting(listener: &OwnedFd, pid: &str) -> Command {
    let script = format!(
        "exec 3<&{}; LISTEN_FDS=1 LISTEN_PID={pid} exec '{}' front-worker",
        inheritable(listener),
        env!("CARGO_BIN_EXE_weir-bench")
    );
    // Not sh: dash takes descriptors up to 9 only.
    let mut command = Command::new("bash");
    command.arg("-c").arg(script);
    command
}

fn listener() -> (OwnedFd, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener.into(), address)
}

#[test]
fn an_inherited_socket_is_served_and_one_for_somebody_else_is_not() {
    let (socket, address) = listener();
    let _worker = Worker::spawn(&mut inheriting(&socket, "$$"));
    let mut stream = connect(&address);
    ask(&mut stream, 0);
    assert!(answer(stream).ends_with("ok"));
    let mut stranger = Worker::spawn(inheriting(&socket, "1").stderr(Stdio::piped()));
    let ended = || stranger.child.try_wait().expect("waited for");
    assert_eq!(until("it has ended", ended).code(), Some(2));
    let complaint = answer(stranger.child.stderr.take().expect("piped"));
    assert!(complaint.contains("LISTEN_PID"), "{complaint}");
}

#[test]
fn what_is_no_listening_socket_is_refused() {
    for (flags, named) in [
        (&["--fd", "2"][..], "descriptor 2"),
        (&["--fd", "99"], "descriptor 99"),
        (&[], "--socket"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-bench"));
        let output = command.arg("front-worker").args(flags).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(named), "{output:?}");
    }
}

#[test]
fn its_record_says_since_when_it_serves_and_that_it_is_idle_again() {
    const INDEX: u64 = 3;
    const RECORD_BYTES: usize = 32;
    let records = memfd_create("records", MemfdFlags::CLOEXEC).expect("made");
    ftruncate(&records, 8 * RECORD_BYTES as u64).expect("sized");
    let all = || {
        let mut bytes = [0; 8 * RECORD_BYTES];
        pread(&records, &mut bytes, 0).expect("read");
        let words = bytes.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8")));
        words.collect::<Vec<u64>>()
    };
    let [state, answered] = [0, 1].map(|word| 3 * 4 + word);
    // As if a connection had been given to it that is gone.
    pwrite(&records, &1_u64.to_ne_bytes(), INDEX * RECORD_BYTES as u64).expect("written");
    let (socket, address) = listener();
    let mut command = inheriting(&socket, "$$");
    command.env("WEIR_BUSY_FD", inheritable(&records).to_string());
    command.env("WEIR_BUSY_INDEX", INDEX.to_string());
    let _worker = Worker::spawn(&mut command);
    let mut stream = connect(&address);
    ask(&mut stream, 0);
    assert!(answer(stream).ends_with("ok"));
    until("it is idle", || (all()[state] == 0).then_some(()));
    assert_eq!(all()[answered], 1);
    let mut stream = connect(&address);
    ask(&mut stream, 60_000_000);
    until("it serves since it began", || (all()[state] > 1).then_some(()));
    let others =
        all().iter().enumerate().filter(|(word, value)| **value != 0 && *word / 4 != 3).count();
    assert_eq!(others, 0, "only its own record: {:?}", all());
}

#[test]
fn a_socket_that_an_earlier_run_left_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.sock");
    fs::write(&path, "").expect("written");
    let _worker = Worker::start(&["--socket", path.to_str().expect("text")]);
    let mut stream = connect_unix(&path);
    ask(&mut stream, 0);
    assert!(answer(stream).ends_with("ok"));
}
