//! A Redis whose machine loses its power: it is killed, and its append-only file is cut to the length
//! that the last completed sync covers. `kill -9` alone leaves what was written in the page cache.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

const SOURCE: &str = include_str!("synced.c");
const LOG: &str = "synced.log";
/// Tries with other ports: another process may take one between its choice and the server's bind.
const STARTS_MAX: usize = 5;
/// A replica has all data after so many polls.
const FOLLOW_POLLS_MAX: usize = 3_000;

/// The library that notes syncs; `None`, and a line that says so, without a C compiler.
fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let compile = || {
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("synced.c"), folder.path().join("synced.so"));
        fs::write(&source, SOURCE).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let compiled = command.status().is_ok_and(|status| status.success());
        if !compiled {
            eprintln!("skipped: cc can't compile the library that notes syncs");
        }
        compiled.then_some((folder, library))
    };
    LIBRARY.get_or_init(compile).as_ref().map(|(_, library)| library.as_path())
}

pub(super) struct MortalServer {
    binary: PathBuf,
    arguments: Vec<String>,
    folder: TempDir,
    pub(super) port: u16,
    child: Option<Child>,
}

impl MortalServer {
    pub(super) fn start(binary: &Path, arguments: &[&str]) -> Option<Self> {
        library()?;
        for _ in 0..STARTS_MAX {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let mut server = Self {
                binary: binary.to_owned(),
                arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
                folder: tempfile::tempdir().unwrap(),
                port,
                child: None,
            };
            if server.try_run() {
                return Some(server);
            }
        }
        panic!("{} ended {STARTS_MAX} times before it was ready", binary.display());
    }

    /// Starts it in its folder, on its port.
    pub(super) fn run(&mut self) {
        let started = (0..STARTS_MAX).any(|_| self.try_run());
        assert!(started, "it starts with what the power cut left");
    }

    fn try_run(&mut self) -> bool {
        let mut command = Command::new(&self.binary);
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""]);
        command.args(["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"]);
        command.args(&self.arguments).arg("--dir").arg(self.folder.path());
        command.current_dir(&self.folder).stdout(Stdio::piped()).stderr(Stdio::null());
        command
            .env("LD_PRELOAD", library().unwrap())
            .env("WEIR_SYNC_LOG", self.folder.path().join(LOG));
        let Ok(mut child) = command.spawn() else { return false };
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line.contains("eady to accept connections"));
        // What it says later must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        if is_ready {
            self.child = Some(child);
        } else {
            child.wait().unwrap();
        }
        is_ready
    }

    /// Makes it a replica of `primary`, and waits until it has all of its data.
    pub(super) fn follow(&mut self, primary: &Self) {
        let words = ["127.0.0.1", &primary.port.to_string()];
        redis::cmd("REPLICAOF").arg(&words).exec(&mut self.client()).unwrap();
        let follows = (0..FOLLOW_POLLS_MAX).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            self.info().contains("master_link_status:up")
        });
        assert!(follows, "{}", self.info());
    }

    pub(super) fn info(&self) -> String {
        redis::cmd("INFO").arg("replication").query(&mut self.client()).unwrap()
    }

    pub(super) fn signal(&self, name: &str) {
        let process = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }

    pub(super) fn client(&self) -> redis::Connection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        client.get_connection().unwrap()
    }

    /// Kills it and cuts its file. Returns what was cut off.
    pub(super) fn cut_power(&mut self) -> Vec<u8> {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let synced = self.synced_lengths();
        let (mut lost, mut kept) = (Vec::new(), String::new());
        for file in fs::read_dir(self.folder.path().join("appendonlydir")).unwrap() {
            let path = file.unwrap().path();
            if !path.to_string_lossy().ends_with(".incr.aof") {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let length = synced.get(&path).copied().unwrap_or_default().min(bytes.len());
            lost.extend_from_slice(&bytes[length..]);
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(length as u64).unwrap();
            kept.push_str(&format!("{length} {}\n", path.display()));
        }
        // What was synced is what is there now.
        fs::write(self.folder.path().join(LOG), kept).unwrap();
        lost
    }

    /// The length of each file at its last completed sync.
    fn synced_lengths(&self) -> BTreeMap<PathBuf, usize> {
        let log = fs::read_to_string(self.folder.path().join(LOG)).unwrap_or_default();
        let notes = log.lines().filter_map(|line| line.split_once(' '));
        notes.map(|(length, path)| (PathBuf::from(path), length.parse().unwrap())).collect()
    }
}

impl Drop for MortalServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A Sentinel that promotes a replica after two seconds: less, and a busy machine makes it promote the other one again.
pub(super) struct MortalSentinel {
    _folder: TempDir,
    pub(super) port: u16,
    child: Child,
}

impl MortalSentinel {
    pub(super) fn start(binary: &Path, primary: &MortalServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("sentinel.conf");
        let text = format!(
            "sentinel monitor mymaster 127.0.0.1 {} 1\nsentinel down-after-milliseconds mymaster 2000\n\
             sentinel failover-timeout mymaster 6000\n",
            primary.port
        );
        fs::write(&config, text).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(binary);
        command.arg(&config).args([
            "--sentinel",
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
        ]);
        command.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("+slave slave")), "the Sentinel knows the replica");
        std::thread::spawn(move || lines.for_each(drop));
        Self { _folder: folder, port, child }
    }
}

impl MortalSentinel {
    /// Returns the port of the primary that it names.
    pub(super) fn primary_port(&self) -> u16 {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut connection = client.get_connection().unwrap();
        let mut command = redis::cmd("SENTINEL");
        command.arg("GET-MASTER-ADDR-BY-NAME").arg("mymaster");
        command.query::<(String, u16)>(&mut connection).unwrap().1
    }
}

impl Drop for MortalSentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
