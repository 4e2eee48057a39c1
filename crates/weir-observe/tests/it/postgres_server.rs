//! A Postgres of one's own: a temporary folder, a free port, stopped with the test.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use tempfile::TempDir;

/// Tries with other ports: another process may take one between its choice and the server's bind.
const STARTS_MAX: usize = 5;
/// Postgres refuses to run as root; its package brings this user.
const USER: &str = "postgres";
const CONNECTS_MAX: usize = 100;
const DONE: &str = "that-is-done";

pub(crate) struct PostgresServer {
    child: Child,
    folder: TempDir,
    pub(crate) port: u16,
    log: Option<JoinHandle<Vec<String>>>,
}

impl PostgresServer {
    /// With `settings` as they stand in `postgresql.conf`; none, and a line that says so, where there
    /// is no Postgres or nobody to run it as.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        Self::start_including(settings, "")
    }

    /// With a file of settings beside `postgresql.conf`, which includes it.
    pub(crate) fn start_including(settings: &[&str], included: &str) -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("skipped: there is no Postgres (Debian: postgresql)");
            return None;
        };
        let Ok(user) = user() else {
            eprintln!("skipped: Postgres does not run as root, and there is no user {USER}");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid)).unwrap();
        }
        let mut initdb = as_user(programs.join("initdb"), user);
        initdb.args(["--no-sync", "-A", "trust", "-U", "postgres", "-D"]).arg(&data);
        let output = initdb.current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(folder.path().join("included.conf"), included).unwrap();
        let mut conf =
            std::fs::OpenOptions::new().append(true).open(data.join("postgresql.conf")).unwrap();
        writeln!(conf, "include '../included.conf'").unwrap();
        for _ in 0..STARTS_MAX {
            let port = free_port();
            if let Some((child, log)) = serve(&programs, folder.path(), port, settings) {
                return Some(Self { child, folder, port, log: Some(log) });
            }
        }
        panic!("postgres ended {STARTS_MAX} times before it was ready");
    }

    /// Stops it in order, and starts it with other settings in the file that it includes.
    pub(crate) fn restart_including(&mut self, included: &str) {
        std::fs::write(self.folder.path().join("included.conf"), included).unwrap();
        self.restart_with(&[]);
    }

    /// Stops it in order, and starts it with these settings on its command line.
    pub(crate) fn restart_with(&mut self, settings: &[&str]) {
        self.signal("-INT");
        self.log.take().unwrap().join().unwrap();
        let served = serve(&programs().unwrap(), self.folder.path(), self.port, settings);
        let (child, log) = served.expect("it starts with other settings");
        (self.child, self.log) = (child, Some(log));
    }

    /// Adds a line to a file of settings: its path, or its name in the folder of `postgresql.conf`.
    #[allow(dead_code, reason = "the tests of the program change settings as doctor says")]
    pub(crate) fn append(&self, file: &str, line: &str) {
        let path = self.folder.path().join("data").join(file);
        let mut conf = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        writeln!(conf, "{line}").unwrap();
    }

    /// Pastes statements into psql, as the superuser: each is one of its own.
    #[allow(dead_code, reason = "the tests of the program run what doctor prints")]
    pub(crate) fn paste(&self, statements: &str) {
        let mut psql = self.psql();
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = psql.spawn().unwrap();
        writeln!(child.stdin.take().unwrap(), "{statements}").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{statements}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends it: what it has written to its log since it was ready.
    pub(crate) fn end(mut self) -> Vec<String> {
        self.stop();
        self.log.take().unwrap().join().unwrap()
    }

    /// At once, but with an end of all its processes and their shared memory.
    fn stop(&mut self) {
        self.signal("-QUIT");
    }

    fn signal(&mut self, name: &str) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let pid = self.child.id().to_string();
            let _ = Command::new("kill").args([name, &pid]).status();
            let _ = self.child.wait();
        }
    }

    pub(crate) fn url(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// One statement, as the superuser, through the socket.
    pub(crate) fn run(&self, statement: &str) {
        let output = self.psql().args(["-c", statement]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn psql(&self) -> Command {
        let folder = self.folder.path().display().to_string();
        let port = self.port.to_string();
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", &folder, "-p", &port]);
        psql.args(["-U", "postgres"]);
        psql
    }

    /// A client that stays: `psql` under the name of another program.
    pub(crate) fn client(&self, user: &str, program: &str) -> PostgresClient {
        // A session that has just ended may hold its slot for a moment longer.
        let tries = (0..CONNECTS_MAX).find_map(|_| self.try_client(user, program));
        tries.unwrap_or_else(|| panic!("{user} was refused {CONNECTS_MAX} times"))
    }

    fn try_client(&self, user: &str, program: &str) -> Option<PostgresClient> {
        PostgresClient::at(&self.url(user), program)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A session that is open as long as this is.
pub(crate) struct PostgresClient {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl PostgresClient {
    /// Of what is at that address; none if it is refused.
    pub(crate) fn at(url: &str, program: &str) -> Option<Self> {
        let mut client = Self::open(url, program);
        // As applications do that do not want to be known by it.
        client.is_done("SET application_name = ''").then_some(client)
    }

    /// One that has sent a statement, whose end nobody waits for.
    #[allow(dead_code, reason = "the tests of poolers have clients that wait")]
    pub(crate) fn at_begun(url: &str, program: &str, statement: &str) -> Self {
        let mut client = Self::open(url, program);
        client.begin(statement);
        client
    }

    fn open(url: &str, program: &str) -> Self {
        let mut psql = Command::new(programs().unwrap().join("psql"));
        psql.arg0(program).args(["-X", "-q", "-A", "-t", "-d", url]);
        psql.env("PGAPPNAME", "x")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = psql.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines }
    }

    /// A statement, and its end.
    pub(crate) fn say(&mut self, statement: &str) {
        assert!(self.is_done(statement), "psql ended at {statement}");
    }

    fn is_done(&mut self, statement: &str) -> bool {
        // One that was refused has ended, and reads nothing.
        let _ = writeln!(self.stdin, "{statement};\n\\echo {DONE}");
        self.lines.by_ref().map_while(Result::ok).any(|line| line == DONE)
    }

    /// A statement whose end nobody waits for.
    pub(crate) fn begin(&mut self, statement: &str) {
        writeln!(self.stdin, "{statement};").unwrap();
        self.stdin.flush().unwrap();
    }
}

impl Drop for PostgresClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One that is ready, and what it goes on to say; none if it ended before.
fn serve(
    programs: &Path,
    folder: &Path,
    port: u16,
    settings: &[&str],
) -> Option<(Child, JoinHandle<Vec<String>>)> {
    let mut command = as_user(programs.join("postgres"), user().ok()?);
    command.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c"]);
    command.arg(format!("unix_socket_directories={}", folder.display()));
    for setting in ["fsync=off"].iter().chain(settings) {
        command.args(["-c", setting]);
    }
    command.arg("-D").arg(folder.join("data")).current_dir(folder);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let is_ready = |line: String| line.contains("ready to accept ");
    if lines.by_ref().map_while(Result::ok).any(is_ready) {
        // What it says later must not fill the pipe.
        let log = std::thread::spawn(move || lines.map_while(Result::ok).collect());
        return Some((child, log));
    }
    child.wait().unwrap();
    None
}

/// The newest version's.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(Result::ok);
    let programs = versions.map(|version| version.path().join("bin"));
    programs.filter(|folder| folder.join("postgres").exists()).max()
}

/// Whom to run it as: nobody else, unless this is root.
pub(crate) fn user() -> Result<Option<(u32, u32)>, ()> {
    if id(&["-u"]) != Some(0) {
        return Ok(None);
    }
    match (id(&["-u", USER]), id(&["-g", USER])) {
        (Some(uid), Some(gid)) => Ok(Some((uid, gid))),
        _ => Err(()),
    }
}

fn id(arguments: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

pub(crate) fn as_user(program: PathBuf, user: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command.stdin(Stdio::null());
    command
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
