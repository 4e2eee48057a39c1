//! A Redis of one's own: a temporary folder, a free port, stopped with the test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use weir_redis::RedisEndpoint;

pub(crate) struct RedisServer {
    child: Child,
    folder: TempDir,
    arguments: Vec<String>,
    pub(crate) port: u16,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        Self { child: spawn(&folder, port, &arguments), folder, arguments, port }
    }

    /// A replica that has all that the primary has.
    pub(crate) fn start_replica(primary: &Self) -> Self {
        // The primary would wait for more replicas.
        primary.run(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        let port = primary.port.to_string();
        let replica = Self::start_with(&["--replicaof", "127.0.0.1", &port]);
        let is_linked = || replica.info("replication").contains("master_link_status:up");
        while !is_linked() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        replica
    }

    /// A Sentinel that watches the server on a port under the name of `mymaster`.
    pub(crate) fn start_sentinel(watched: u16) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let file = folder.path().join("sentinel.conf");
        let lines = format!(
            "bind 127.0.0.1\nport {port}\nsentinel monitor mymaster 127.0.0.1 {watched} 1\n"
        );
        std::fs::write(&file, lines).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").current_dir(&folder);
        let child = until_it_says(command, "+monitor master mymaster");
        Self { child, folder, arguments: Vec::new(), port }
    }

    pub(crate) fn endpoint(&self) -> RedisEndpoint {
        RedisEndpoint::parse(&format!("redis://127.0.0.1:{}", self.port)).unwrap()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    pub(crate) fn info(&self, section: &str) -> String {
        redis::from_redis_value(self.run(&["INFO", section])).unwrap()
    }

    /// Ends it with SIGKILL. It has saved nothing.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.folder, self.port, &self.arguments);
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args(["-s", signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    pub(crate) fn run(&self, words: &[&str]) -> redis::Value {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).query(&mut connection).unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn spawn(folder: &TempDir, port: u16, arguments: &[String]) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--port", &port.to_string()]);
    command.args(["--unixsocket", "redis.sock", "--dir"]).arg(folder.path()).args(arguments);
    command.current_dir(folder);
    until_it_says(command, "eady to accept")
}

fn until_it_says(mut command: Command, text: &str) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("redis-server is installed");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_ready = lines.map_while(Result::ok).any(|line| line.contains(text));
    assert!(is_ready, "redis-server ended");
    child
}
