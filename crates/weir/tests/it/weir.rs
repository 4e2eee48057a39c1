//! The DSL: a Weir in a folder of its own, its commands, its end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal};

use crate::process::{TEST_TIMEOUT, lines_of, output_of, wait_for};

/// Far more than any test writes: a log that never ends must not make a wait endless.
const LOG_LINES_MAX: usize = 10_000;

/// What every test's settings start with: ports that the system chooses.
const PORTS: &str = "[jobs]\nlisten = \"127.0.0.1:0\"\nstore = \"memory\"\n\
                     [console]\nlisten = \"127.0.0.1:0\"\n";

/// Returns the program under test.
pub(crate) fn program() -> Command {
    program_in(Path::new(env!("CARGO_BIN_EXE_weir")))
}

fn program_in(file: &Path) -> Command {
    let mut command = Command::new(file);
    command.env_remove("NOTIFY_SOCKET").env_remove("WEIR_CONFIG").env("NO_COLOR", "1");
    command
}

/// A folder with settings, in which Weir may run.
pub(crate) struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    /// Creates a folder with the usual settings after `extra`.
    pub(crate) fn new(extra: &str) -> Self {
        let site = Self { folder: tempfile::tempdir().expect("a folder") };
        site.write(&format!("{extra}\n{PORTS}"));
        site
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn write(&self, settings: &str) {
        std::fs::write(self.path().join("weir.toml"), settings).expect("written");
    }

    pub(crate) fn write_file(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path().join(name), bytes).expect("written");
    }

    /// Runs a command in this folder to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        output_of(program().current_dir(self.path()).args(arguments))
    }

    /// Runs a command that must succeed; returns its standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "weir {arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command; returns its exit code, standard output and standard error, for a snapshot.
    pub(crate) fn shown(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace(&self.path().display().to_string(), "[folder]")
        };
        let code = output.status.code().expect("an exit code");
        format!(
            "exit: {code}\n-- stdout\n{}-- stderr\n{}",
            text(&output.stdout),
            text(&output.stderr)
        )
    }

    pub(crate) fn start(self) -> Weir {
        self.start_with(|_| {})
    }

    pub(crate) fn start_with(self, change: impl FnOnce(&mut Command)) -> Weir {
        Weir::start_in(self, program(), change)
    }

    /// Starts the program from another file.
    pub(crate) fn start_program(self, file: &Path, change: impl FnOnce(&mut Command)) -> Weir {
        Weir::start_in(self, program_in(file), change)
    }
}

/// A running Weir. Dropping it ends it.
pub(crate) struct Weir {
    pub(crate) site: Site,
    parent: Child,
    pub(crate) ready_line: String,
    output: mpsc::Receiver<String>,
    log: mpsc::Receiver<String>,
    seen: Vec<String>,
}

impl Weir {
    pub(crate) fn start() -> Self {
        Site::new("").start()
    }

    fn start_in(site: Site, mut command: Command, change: impl FnOnce(&mut Command)) -> Self {
        command.current_dir(site.path()).args(["up", "--log-level", "debug"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command);
        let mut parent = command.spawn().expect("the program starts");
        let log = lines_of(parent.stderr.take().expect("piped"));
        let output = lines_of(parent.stdout.take().expect("piped"));
        let (ready_line, seen) = (String::new(), Vec::new());
        let mut weir = Self { site, parent, ready_line, output, log, seen };
        match weir.output.recv_timeout(TEST_TIMEOUT) {
            Ok(line) if line.starts_with("weir ready ") => weir.ready_line = line,
            said => {
                let _ = weir.parent.kill();
                while let Ok(line) = weir.log.recv_timeout(TEST_TIMEOUT) {
                    weir.seen.push(line);
                }
                panic!("not ready: {said:?}\n{}", weir.seen.join("\n"));
            }
        }
        weir
    }

    /// Returns the next line of its standard output after the ready line.
    pub(crate) fn next_line(&self) -> String {
        self.output.recv_timeout(TEST_TIMEOUT).expect("a line")
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}=");
        self.ready_line.split(' ').find_map(|field| field.strip_prefix(&prefix))
    }

    fn address(&self, part: &str) -> SocketAddr {
        self.field(part).expect("in the ready line").parse().expect("an address")
    }

    pub(crate) fn jobs(&self) -> SocketAddr {
        self.address("jobs")
    }

    pub(crate) fn console(&self) -> SocketAddr {
        self.address("console")
    }

    pub(crate) fn front(&self) -> SocketAddr {
        self.address("front")
    }

    pub(crate) fn realtime(&self) -> SocketAddr {
        self.address("realtime")
    }

    pub(crate) fn gems(&self) -> SocketAddr {
        self.address("gems")
    }

    /// Returns the address at which the workers of an app accept connections themselves.
    pub(crate) fn app(&self, name: &str) -> SocketAddr {
        self.address(&format!("app.{name}"))
    }

    pub(crate) fn serves(&self, part: &str) -> bool {
        self.field(part).is_some()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.site.path().join("data")
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.parent)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).expect("signalled");
    }

    /// Returns the service process.
    pub(crate) fn service(&self) -> Pid {
        let status: serde_json::Value =
            serde_json::from_str(&self.site.ok(&["status", "--json", "--data-dir", "data"]))
                .expect("JSON");
        let pid = i32::try_from(status["pid"].as_i64().expect("a pid")).expect("a pid");
        Pid::from_raw(pid).expect("a pid")
    }

    /// Returns the next line of the log that contains `text`.
    pub(crate) fn wait_for_log(&mut self, text: &str) -> String {
        for _ in 0..LOG_LINES_MAX {
            match self.log.recv_timeout(TEST_TIMEOUT) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => self.seen.push(line),
                Err(_) => break,
            }
        }
        panic!("{text:?} never came to the log:\n{}", self.seen.join("\n"));
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_for(&mut self.parent)
    }

    /// Stops it gracefully.
    pub(crate) fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Stops it gracefully and returns its folder.
    pub(crate) fn end(mut self) -> Site {
        self.signal(Signal::TERM);
        assert!(self.wait().success());
        self.into_site()
    }

    /// Kills the parent with SIGKILL, as the kernel does when memory runs out.
    pub(crate) fn kill_parent(mut self) -> Site {
        let _ = self.parent.kill();
        let _ = self.parent.wait();
        self.into_site()
    }

    /// Returns the folder of a Weir that has ended.
    pub(crate) fn into_site(mut self) -> Site {
        let site = std::mem::replace(&mut self.site, Site::new(""));
        drop(self);
        site
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

/// Returns whether a process runs (a zombie does not).
pub(crate) fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
}
