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

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// From the line that says where it listens.
    fn read_address(&mut self) -> String {
        let line = self.read_line();
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

fn wait_for<T>(condition: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let (pause, mut left) = (Duration::from_millis(10), PATIENCE);
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(!left.is_zero(), "{condition}: not within {PATIENCE:?}");
        sleep(pause);
        left = left.saturating_sub(pause);
    }
}

fn send_request(stream: &mut (impl Read + Write), microseconds: u64) {
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
    let stream = wait_for("it listens", || UnixStream::connect(path).ok());
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// An answer to the end of the connection.
fn read_response(mut stream: impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    text
}

fn worker_name(response: &str) -> &str {
    let line = response.lines().find_map(|line| line.strip_prefix("X-Worker: "));
    line.unwrap_or_else(|| panic!("no name: {response}"))
}

#[test]
fn response_names_the_process_and_closes_the_connection() {
    let mut worker = Worker::start(&["--port", "0"]);
    let mut stream = connect(&worker.read_address());
    send_request(&mut stream, 0);
    let response = read_response(stream);
    assert!(
        response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nok"),
        "{response}"
    );
    assert_eq!(worker_name(&response), worker.child.id().to_string());
}

#[test]
fn keep_alive_keeps_connections_open() {
    let mut worker = Worker::start(&["--port", "0", "--keep-alive", "--name", "w"]);
    let address = worker.read_address();
    let mut streams = [0, 1].map(|_| connect(&address));
    for round in 0..4 {
        let stream = &mut streams[round % 2];
        send_request(stream, 100);
        let mut response = [0; 512];
        let bytes = stream.read(&mut response).expect("answered");
        let text = String::from_utf8_lossy(&response[..bytes]).into_owned();
        assert!(text.contains("Connection: keep-alive") && worker_name(&text) == "w", "{text}");
    }
}

#[test]
fn a_worker_serves_one_request_at_a_time() {
    let mut worker = Worker::start(&["--port", "0"]);
    let address = worker.read_address();
    let mut first = connect(&address);
    send_request(&mut first, 60_000_000);
    let mut second = connect(&address);
    send_request(&mut second, 0);
    second.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    let nothing = second.read(&mut [0; 16]).expect_err("the worker sleeps");
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn processes_share_one_port_or_have_a_socket_each() {
    let mut shared = Worker::start(&["--port", "0", "--processes", "3"]);
    let address = shared.read_address();
    assert_eq!(shared.read_line(), "3 workers");
    let mut stream = connect(&address);
    send_request(&mut stream, 0);
    assert_ne!(worker_name(&read_response(stream)), shared.child.id().to_string());

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("{index}.sock");
    let mut own = Worker::start(&["--socket", path.to_str().expect("text"), "--processes", "3"]);
    assert_eq!(own.read_line(), "3 workers");
    let mut names = Vec::new();
    for index in 0..3 {
        let path = folder.path().join(format!("{index}.sock"));
        let mut stream = connect_unix(&path);
        send_request(&mut stream, 0);
        names.push(worker_name(&read_response(stream)).to_owned());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn workers_end_with_the_process_that_started_them() {
    let mut parent = Worker::start(&["--port", "0", "--processes", "2"]);
    let address = parent.read_address();
    assert_eq!(parent.read_line(), "2 workers");
    // SIGKILL: it can't tell them.
    parent.child.kill().expect("killed");
    parent.child.wait().expect("ended");
    wait_for("nobody listens", || TcpStream::connect(&address).err());
}

fn make_inheritable(fd: &OwnedFd) -> i32 {
    fcntl_setfd(fd, FdFlags::empty()).expect("set");
    fd.as_fd().as_raw_fd()
}

/// A worker that finds a listening socket as descriptor 3, as its starter announces.
fn inheriting_worker(listener: &OwnedFd, pid: &str) -> Command {
    let script = format!(
        "exec 3<&{}; LISTEN_FDS=1 LISTEN_PID={pid} exec '{}' front-worker",
        make_inheritable(listener),
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
fn inherited_socket_is_served_only_for_its_pid() {
    let (socket, address) = listener();
    let _worker = Worker::spawn(&mut inheriting_worker(&socket, "$$"));
    let mut stream = connect(&address);
    send_request(&mut stream, 0);
    assert!(read_response(stream).ends_with("ok"));
    let mut stranger = Worker::spawn(inheriting_worker(&socket, "1").stderr(Stdio::piped()));
    let ended = || stranger.child.try_wait().expect("waited for");
    assert_eq!(wait_for("it has ended", ended).code(), Some(2));
    let complaint = read_response(stranger.child.stderr.take().expect("piped"));
    assert!(complaint.contains("LISTEN_PID"), "{complaint}");
}

#[test]
fn non_listening_descriptors_are_rejected() {
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
fn busy_record_has_the_start_of_the_request_and_idle() {
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
    let mut command = inheriting_worker(&socket, "$$");
    command.env("WEIR_BUSY_FD", make_inheritable(&records).to_string());
    command.env("WEIR_BUSY_INDEX", INDEX.to_string());
    let _worker = Worker::spawn(&mut command);
    let mut stream = connect(&address);
    send_request(&mut stream, 0);
    assert!(read_response(stream).ends_with("ok"));
    wait_for("it is idle", || (all()[state] == 0).then_some(()));
    assert_eq!(all()[answered], 1);
    let mut stream = connect(&address);
    send_request(&mut stream, 60_000_000);
    wait_for("it serves since it began", || (all()[state] > 1).then_some(()));
    let others =
        all().iter().enumerate().filter(|(word, value)| **value != 0 && *word / 4 != 3).count();
    assert_eq!(others, 0, "only its own record: {:?}", all());
}

#[test]
fn stale_socket_file_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.sock");
    fs::write(&path, "").expect("written");
    let _worker = Worker::start(&["--socket", path.to_str().expect("text")]);
    let mut stream = connect_unix(&path);
    send_request(&mut stream, 0);
    assert!(read_response(stream).ends_with("ok"));
}
