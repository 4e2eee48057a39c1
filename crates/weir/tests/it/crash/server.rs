//! The binary under test, as an operator starts it.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::process::{TEST_TIMEOUT, lines_of, wait_for};

/// A start takes milliseconds; this only bounds a failure.
const START_TRIES: u32 = 2_000;
const TRY_INTERVAL: Duration = Duration::from_millis(10);

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The service process; its parent starts it again.
    Service,
    /// Parent and service.
    Everything,
}

pub(crate) struct Server {
    folder: tempfile::TempDir,
    address: SocketAddr,
    parent: Child,
    service: Pid,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// Starts with these settings in addition, the first of them in `[jobs.limits]`.
    pub(crate) fn start_with(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // The port must stay the same over restarts: one that is free now.
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("a bound port");
        drop(free);
        let settings = format!(
            "data_dir = {:?}\n[jobs]\nlisten = \"{address}\"\nfsync_acks = true\n\
             [jobs.limits]\nadvanced.segment_bytes = \"4MiB\"\nadvanced.reserve_bytes = \"1MiB\"\n\
             line_bytes_max = \"256KiB\"\n{more}[console]\nlisten = \"127.0.0.1:0\"\n",
            folder.path().join("data")
        );
        std::fs::write(folder.path().join("weir.toml"), settings).expect("a writable folder");
        let (parent, service) = launch(folder.path());
        Self { folder, address, parent, service }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills a process with SIGKILL.
    pub(crate) fn kill(&mut self, victim: Victim) {
        if victim == Victim::Everything {
            // First, so that it doesn't start another service.
            self.parent.kill().expect("the parent is ours");
            self.parent.wait().expect("the parent is ours");
        }
        // It may have noticed that its parent died, and ended.
        let _ = kill_process(self.service, Signal::KILL);
    }

    /// Waits until the server serves again.
    pub(crate) fn restart(&mut self, victim: Victim) {
        let old = self.service;
        if victim == Victim::Everything {
            wait_until_ended(old);
            let (parent, service) = launch(self.folder.path());
            self.parent = parent;
            self.service = service;
            return;
        }
        self.service = wait_for_some(|| service_of(&self.parent).filter(|service| *service != old));
        wait_for_some(|| TcpStream::connect(self.address).ok());
    }

    pub(crate) fn stop(mut self) {
        let parent = Pid::from_child(&self.parent);
        kill_process(parent, Signal::TERM).expect("the parent is ours");
        let status = wait_for(&mut self.parent);
        assert!(status.success(), "a graceful stop ends with {status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.parent.kill();
        let _ = kill_process(self.service, Signal::KILL);
        let _ = self.parent.wait();
    }
}

fn launch(folder: &Path) -> (Child, Pid) {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log"));
    let mut parent = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["up", "--config", "weir.toml"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(log.expect("a writable folder"))
        .spawn()
        .expect("the binary under test");
    let stdout = parent.stdout.take().expect("a piped stdout");
    let said = lines_of(stdout).recv_timeout(TEST_TIMEOUT);
    let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let is_ready = said.as_ref().is_ok_and(|line| line.starts_with("weir ready"));
    if !is_ready {
        let _ = parent.kill();
        panic!("Weir did not start again: {said:?}\n{}", log());
    }
    let service = wait_for_some(|| service_of(&parent));
    (parent, service)
}

/// Returns the parent's only child.
fn service_of(parent: &Child) -> Option<Pid> {
    let pid = parent.id();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}

fn wait_until_ended(pid: Pid) {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    wait_for_some(|| (!Path::new(&folder).exists()).then_some(()));
}

fn wait_for_some<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    for _ in 0..START_TRIES {
        if let Some(found) = poll() {
            return found;
        }
        std::thread::sleep(TRY_INTERVAL);
    }
    panic!("waited {:?} in vain", TRY_INTERVAL * START_TRIES);
}
