//! A PgBouncer of one's own before a Postgres: a temporary folder, a free port, stopped with the test.

use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::postgres_server::{PostgresServer, as_user, free_port, user};

/// Debian has it where only root looks by itself.
const PROGRAM: &str = "/usr/sbin/pgbouncer";
/// Tries until it listens, a twentieth of a second apart.
const TRIES_MAX: usize = 200;

pub(crate) struct PgBouncer {
    child: Child,
    folder: TempDir,
    settings: String,
    pub(crate) port: u16,
}

impl PgBouncer {
    /// With `settings` as they stand in `pgbouncer.ini`, in transaction mode; none, and a line that says so,
    /// where there is no PgBouncer.
    pub(crate) fn start(server: &PostgresServer, settings: &str) -> Option<Self> {
        let user = user().ok()?;
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let users = folder.path().join("users");
        std::fs::write(&users, "\"shop\" \"\"\n\"postgres\" \"\"\n\"weir\" \"\"\n").unwrap();
        let head = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\n\
             admin_users = postgres\npool_mode = transaction\n",
            server.port,
            users.display()
        );
        let ini = folder.path().join("pgbouncer.ini");
        std::fs::write(&ini, format!("{head}{settings}\n")).unwrap();
        if let Some((uid, gid)) = user {
            for path in [folder.path(), &users, &ini] {
                chown(path, Some(uid), Some(gid)).unwrap();
            }
        }
        let mut command = as_user(PathBuf::from(PROGRAM), user);
        command.arg(&ini).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            eprintln!("skipped: there is no PgBouncer (Debian: pgbouncer)");
            return None;
        };
        let pooler = Self { child, folder, settings: head, port };
        let listens = (0..TRIES_MAX).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        assert!(listens, "PgBouncer did not listen");
        Some(pooler)
    }

    pub(crate) fn url(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// Its own database.
    pub(crate) fn console(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/pgbouncer", self.port)
    }

    /// Other settings, and RELOAD.
    pub(crate) fn reload(&self, settings: &str) {
        let ini = self.folder.path().join("pgbouncer.ini");
        std::fs::write(ini, format!("{}{settings}\n", self.settings)).unwrap();
        self.query("RELOAD");
    }

    /// Clients that wait for a connection.
    pub(crate) fn waiting(&self) -> u64 {
        self.clients("cl_waiting")
    }

    /// Clients that have one.
    #[allow(dead_code, reason = "the tests of the program keep one busy")]
    pub(crate) fn active(&self) -> u64 {
        self.clients("cl_active")
    }

    /// The sum of a column of SHOW POOLS.
    fn clients(&self, column: &str) -> u64 {
        let pools = self.query("SHOW POOLS");
        let mut lines = pools.lines().map(|line| line.split('|').collect::<Vec<_>>());
        let place = lines.next().unwrap().iter().position(|name| *name == column).unwrap();
        let rows = lines.filter(|row| row.len() > place && row[0] != "pgbouncer");
        rows.map(|row| row[place].parse::<u64>().unwrap()).sum()
    }

    fn query(&self, command: &str) -> String {
        let port = self.port.to_string();
        let mut psql = Command::new("psql");
        psql.args([
            "-X",
            "-A",
            "-P",
            "footer=off",
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            "postgres",
        ]);
        let output = psql.args(["-d", "pgbouncer", "-c", command]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
