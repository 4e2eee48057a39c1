//! A Redis of one's own: a temporary folder, a free port, stopped with the test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use weir_sidekiq::{RedisConnection, RedisEndpoint, RedisSnapshot, SampleLimits, SampleScope};

/// Tries with other ports: another process may take one between its choice and the server's bind.
const STARTS_MAX: usize = 5;
const SYSTEMS: &str = "redis-server";

/// The Valkey that `e2e/setup` fetches where the system has none.
const FETCHED_VALKEY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/.cache/valkey/usr/bin/valkey-server");

/// Returns a server that has `WAITAOF`: the one that WEIR_VALKEY names, the system's Valkey, or the one
/// that `e2e/setup` has fetched. `None`, and a line that says so, where there is none.
pub(crate) fn with_waitaof() -> Option<PathBuf> {
    let named = std::env::var_os("WEIR_VALKEY").map(PathBuf::from);
    let others = ["valkey-server", FETCHED_VALKEY].map(PathBuf::from);
    let runs = |binary: &PathBuf| {
        Command::new(binary).arg("--version").output().is_ok_and(|it| it.status.success())
    };
    let found = named.map_or_else(|| others.to_vec(), |named| vec![named]).into_iter().find(runs);
    if found.is_none() {
        eprintln!("skipped: there is no valkey-server (WEIR_VALKEY names a server with WAITAOF)");
    }
    found
}

pub(crate) struct RedisServer {
    child: Child,
    /// Of its command line, to start it again.
    arguments: Vec<String>,
    folder: TempDir,
    pub(crate) port: u16,
}

impl RedisServer {
    /// None, and a line that says so, where there is no Redis.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(|_, _| Vec::new())
    }

    /// With arguments that may need the server's folder and port.
    pub(crate) fn start_with(arguments: impl Fn(&Path, u16) -> Vec<String>) -> Option<Self> {
        Self::try_start(free_port, arguments)
    }

    /// Where one was before.
    pub(crate) fn start_at(port: u16) -> Option<Self> {
        Self::try_start(|| port, |_, _| Vec::new())
    }

    /// Another program than the system's.
    pub(crate) fn start_binary(
        binary: &Path,
        arguments: impl Fn(&Path, u16) -> Vec<String>,
    ) -> Option<Self> {
        Self::try_start_until(binary, free_port, arguments, "eady to accept connections")
    }

    /// One that reads `file` and takes a millisecond for each of its keys.
    pub(crate) fn start_loading(file: &Path) -> Option<Self> {
        let arguments = |folder: &Path, _| {
            std::fs::copy(file, folder.join("dump.rdb")).unwrap();
            ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"]
                .map(str::to_owned)
                .to_vec()
        };
        Self::try_start_until(Path::new(SYSTEMS), free_port, arguments, "Server initialized")
    }

    fn try_start(
        port: impl Fn() -> u16,
        arguments: impl Fn(&Path, u16) -> Vec<String>,
    ) -> Option<Self> {
        Self::try_start_until(Path::new(SYSTEMS), port, arguments, "eady to accept connections")
    }

    fn try_start_until(
        binary: &Path,
        port: impl Fn() -> u16,
        arguments: impl Fn(&Path, u16) -> Vec<String>,
        until: &str,
    ) -> Option<Self> {
        for _ in 0..STARTS_MAX {
            let folder = tempfile::tempdir().unwrap();
            let port = port();
            let arguments = arguments(folder.path(), port);
            let Ok(mut child) = command(binary, &folder, port, &arguments).spawn() else {
                eprintln!("skipped: there is no redis-server");
                return None;
            };
            if says(&mut child, until) {
                return Some(Self { child, arguments, folder, port });
            }
            child.wait().unwrap();
        }
        panic!("redis-server ended {STARTS_MAX} times before it was ready");
    }

    /// One that watches the server on `port` under the name of `mymaster`.
    pub(crate) fn start_sentinel(watched: u16) -> Option<Self> {
        Self::start_sentinel_with(
            &format!("sentinel monitor mymaster 127.0.0.1 {watched} 1"),
            "port",
        )
    }

    /// One with these lines in its configuration. `port_option`: `port`, or `tls-port` with `port 0`.
    pub(crate) fn start_sentinel_with(lines: &str, port_option: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let config = folder.path().join("sentinel.conf");
        std::fs::write(&config, format!("bind 127.0.0.1\n{port_option} {port}\n{lines}\n"))
            .unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&config).arg("--sentinel");
        command.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        assert!(says(&mut child, "+monitor master mymaster"), "the Sentinel ended");
        Some(Self { child, arguments: Vec::new(), folder, port })
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again where it was killed, with its data. Does not wait until it is ready.
    pub(crate) fn start_again(&mut self) {
        self.child =
            command(Path::new(SYSTEMS), &self.folder, self.port, &self.arguments).spawn().unwrap();
    }

    /// Sends a signal such as `STOP`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    pub(crate) fn endpoint(&self) -> RedisEndpoint {
        RedisEndpoint::parse(&format!("redis://127.0.0.1:{}", self.port)).unwrap()
    }

    /// To fill it.
    pub(crate) fn client(&self) -> redis::Connection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        client.get_connection().unwrap()
    }

    /// `None`: it does not run, or does not respond.
    pub(crate) fn try_client(&self) -> Option<redis::Connection> {
        const TIMEOUT: Duration = Duration::from_secs(5);
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let connection = client.get_connection_with_timeout(TIMEOUT).ok()?;
        connection.set_read_timeout(Some(TIMEOUT)).ok()?;
        Some(connection)
    }

    /// Commands, one a line, as `redis-cli` takes them: words in quotes where they hold spaces.
    pub(crate) fn run(&self, commands: &[&[&str]]) {
        let mut client = self.client();
        for words in commands {
            let mut command = redis::cmd(words[0]);
            for word in &words[1..] {
                command.arg(word);
            }
            let answer: Result<redis::Value, _> = command.query(&mut client);
            answer.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        }
    }

    pub(crate) async fn sample(&self, scope: SampleScope, limits: &SampleLimits) -> RedisSnapshot {
        let mut connection = RedisConnection::open(&self.endpoint(), limits).await.unwrap();
        connection.sample(scope, limits).await.unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(binary: &Path, folder: &TempDir, port: u16, arguments: &[String]) -> Command {
    let mut command = Command::new(binary);
    command.args(arguments);
    command.args(["--bind", "127.0.0.1", "--save", "", "--unixsocket", "redis.sock"]);
    command.args(["--port", &port.to_string(), "--dir"]).arg(folder.path());
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Whether `child` says `words` before it ends. What it says later goes nowhere: Redis minds not.
fn says(child: &mut Child, words: &str) -> bool {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).any(|line| line.contains(words))
}
