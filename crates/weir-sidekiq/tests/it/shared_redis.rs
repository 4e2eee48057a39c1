//! Two Redis servers for all tests of this process, on Unix sockets. Each store gets a database of
//! its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use weir_sidekiq::{RedisAddress, RedisEndpoint, TlsFiles};

/// Databases of the server, and so the number of stores in one run of the tests.
const DATABASES: i64 = 10_000;

/// Ends the server and removes its folder when this process, which holds the other end of the pipe,
/// has ended.
const GUARD: &str = "exec 3<&0; redis-server \"$@\" & server=$!; \
                     cat >/dev/null <&3; kill -9 $server; rm -rf \"$0\"";

struct SharedRedis {
    socket: PathBuf,
    _alive: ChildStdin,
}

static SERVERS: [OnceLock<Option<SharedRedis>>; 2] = [const { OnceLock::new() }; 2];
static NEXT_DATABASE: AtomicI64 = AtomicI64::new(0);

/// A database that no other test uses. `None`, and a line that says so, where there is no Redis.
pub(crate) fn database() -> Option<RedisEndpoint> {
    database_of(&SERVERS[0])
}

/// Such databases of two servers.
pub(crate) fn two_databases() -> Option<[RedisEndpoint; 2]> {
    Some([database_of(&SERVERS[0])?, database_of(&SERVERS[1])?])
}

fn database_of(server: &'static OnceLock<Option<SharedRedis>>) -> Option<RedisEndpoint> {
    let server = server.get_or_init(start).as_ref()?;
    let database = NEXT_DATABASE.fetch_add(1, Ordering::Relaxed);
    assert!(database < DATABASES, "raise DATABASES");
    let (address, tls) = (RedisAddress::Unix(server.socket.clone()), TlsFiles::default());
    Some(RedisEndpoint { address, database, username: None, password: None, tls })
}

/// A connection to look at what a store does, or to do what Sidekiq does.
pub(crate) fn client(endpoint: &RedisEndpoint) -> redis::Connection {
    let url = format!("unix://{}?db={}", socket(endpoint).display(), endpoint.database);
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

pub(crate) fn socket(endpoint: &RedisEndpoint) -> &Path {
    let RedisAddress::Unix(socket) = &endpoint.address else { panic!("{endpoint:?}") };
    socket
}

fn start() -> Option<SharedRedis> {
    let installed = Command::new("redis-server").arg("--version").output();
    if !installed.is_ok_and(|it| it.status.success()) {
        eprintln!("skipped: there is no redis-server");
        return None;
    }
    let folder = tempfile::tempdir().unwrap().keep();
    let socket = folder.join("redis.sock");
    let mut command = Command::new("sh");
    command.args(["-c", GUARD]).arg(&folder).args(["--port", "0", "--save", ""]);
    command.args(["--databases", &DATABASES.to_string(), "--unixsocket"]).arg(&socket);
    command.arg("--dir").arg(&folder);
    #[expect(clippy::zombie_processes, reason = "it ends with the test process, through its pipe")]
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let alive = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("eady to accept connections")), "redis-server ended");
    Some(SharedRedis { socket, _alive: alive })
}
