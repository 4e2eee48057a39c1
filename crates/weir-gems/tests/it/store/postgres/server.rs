//! A Postgres server for the tests. All tests share it; each uses its own schema.
//!
//! A shell starts the server as an unprivileged user. It stops the server when the tests' process
//! has ended in any way, which closes the shell's input.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// `$1`: the directory of Postgres' programs. `$2`: a free port.
const SCRIPT: &str = r#"
set -e
cd /
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1/initdb" -D "$folder/data" -U weir -A trust -E UTF8 --no-locale --no-sync >"$folder/log" 2>&1 ||
    { cat "$folder/log" >&2; exit 1; }
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$folder/data/server.key" \
    -out "$folder/data/server.crt" -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE >"$folder/log" 2>&1
chmod 600 "$folder/data/server.key"
"$1/pg_ctl" -D "$folder/data" -l "$folder/log" -w -o "-k $folder -p $2 -h 127.0.0.1 -F \
    -c max_connections=200 -c ssl=on" start >"$folder/ctl" 2>&1 ||
    { cat "$folder/ctl" "$folder/log" >&2; exit 1; }
cp "$folder/data/server.crt" "$folder/ca.pem"
chmod 755 "$folder"
chmod 644 "$folder/ca.pem"
echo "$folder"
cat >"$folder/input"
"$1/pg_ctl" -D "$folder/data" -m immediate stop >"$folder/ctl" 2>&1
"#;

/// Postgres refuses to run as root.
const AS_ITS_USER: &str = r#"
if [ "$(id -u)" = 0 ]; then exec runuser -u postgres -- sh -c "$1" sh "$2" "$3"; fi
exec sh -c "$1" sh "$2" "$3"
"#;

pub(crate) struct Server {
    folder: String,
    pub(crate) port: u16,
    _shell: Child,
    /// Open while the tests run.
    _input: ChildStdin,
}

/// Returns the server, or None if Postgres is not installed, which is reported.
pub(crate) fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(start).as_ref();
    if server.is_none() {
        println!("SKIPPED: there is no Postgres here (apt-get install postgresql)");
    }
    server
}

fn start() -> Option<Server> {
    let mut folders: Vec<_> =
        std::fs::read_dir("/usr/lib/postgresql").ok()?.map(|it| it.unwrap().path()).collect();
    folders.sort();
    let programs = folders.pop()?.join("bin");
    if !programs.join("initdb").exists() {
        return None;
    }
    // This port was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut shell = Command::new("sh")
        .args(["-c", AS_ITS_USER, "sh", SCRIPT])
        .arg(programs)
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A signal to the tests' process group must not end the shell that stops Postgres.
        .process_group(0)
        .spawn()
        .unwrap();
    let input = shell.stdin.take().unwrap();
    let mut folder = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut folder).unwrap();
    assert!(!folder.is_empty(), "Postgres has started");
    let folder = folder.trim_end().to_owned();
    Some(Server { folder, port, _shell: shell, _input: input })
}

impl Server {
    /// Returns the URL of its Unix socket.
    pub(crate) fn url(&self) -> String {
        format!("postgres://weir@/postgres?host={}&port={}", self.folder, self.port)
    }

    /// Returns the certificate authority for connections to `localhost`.
    pub(crate) fn ca(&self) -> std::path::PathBuf {
        format!("{}/ca.pem", self.folder).into()
    }
}
