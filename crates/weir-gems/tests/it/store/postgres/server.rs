//! A Postgres of the tests' own, shared by all of them; each has a schema of its own in it.
//!
//! A shell starts it as a user that it runs as, and ends it when the tests' process has ended, in
//! whatever way: then nobody holds the other end of the shell's input.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;

/// `$1`: the folder of Postgres' programs. `$2`: a free port.
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
    /// Open as long as the tests run.
    _input: ChildStdin,
}

/// The server; None: there is no Postgres here, which is said.
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
    // Free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut shell = Command::new("sh")
        .args(["-c", AS_ITS_USER, "sh", SCRIPT])
        .arg(programs)
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A signal to all of the tests must not end who ends Postgres.
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
    /// By its socket.
    pub(crate) fn url(&self) -> String {
        format!("postgres://weir@/postgres?host={}&port={}", self.folder, self.port)
    }

    /// The certificate that it shows to who asks for `localhost`.
    pub(crate) fn ca(&self) -> std::path::PathBuf {
        format!("{}/ca.pem", self.folder).into()
    }
}
