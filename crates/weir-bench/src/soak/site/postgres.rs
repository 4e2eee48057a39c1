//! The Postgres of the gem index of several nodes. Nodes connect to its Unix socket, which all network namespaces share.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use tempfile::TempDir;

use super::commands::{run, signal, wait};
use crate::clock::monotonic;
use crate::weir_process::{POLL_INTERVAL, START_TIMEOUT};

/// Postgres refuses to run as root.
const USER: &str = "postgres";
const PORT: &str = "5432";
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(in crate::soak) struct Postgres {
    programs: PathBuf,
    folder: TempDir,
    process: Child,
}

impl Postgres {
    pub(super) fn start() -> Result<Self> {
        let programs = programs()?;
        let folder = tempfile::Builder::new().prefix("weir-soak-postgres-").tempdir()?;
        let path = folder.path().display().to_string();
        if is_root() {
            run("chown", &[USER, &path])?;
        }
        let data = folder.path().join("data");
        let mut initdb = as_its_user(&programs.join("initdb"));
        initdb.arg("-D").arg(&data).args(["-U", "weir", "-A", "trust", "-E", "UTF8"]);
        initdb.args(["--no-locale", "--no-sync"]).current_dir(folder.path());
        let output = initdb.output().context("running initdb")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        let process = launch(&programs, folder.path())?;
        let mut postgres = Self { programs, folder, process };
        postgres.wait_until_ready()?;
        Ok(postgres)
    }

    pub(super) fn url(&self) -> String {
        format!("postgres://weir@/postgres?host={}", self.folder.path().display())
    }

    /// Ends it at once, as after a crash: it recovers when it is started again.
    pub(in crate::soak) fn stop(&mut self) -> Result<()> {
        signal(self.process.id(), Signal::QUIT)?;
        wait(&mut self.process, STOP_TIMEOUT).map(drop)
    }

    pub(in crate::soak) fn restart(&mut self) -> Result<()> {
        self.process = launch(&self.programs, self.folder.path())?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = monotonic() + START_TIMEOUT;
        let folder = self.folder.path().display().to_string();
        let program = self.programs.join("pg_isready").display().to_string();
        while monotonic() < deadline {
            if let Some(status) = self.process.try_wait()? {
                let log = std::fs::read_to_string(self.folder.path().join("log"));
                bail!("Postgres has ended: {status}: {}", log.unwrap_or_default().trim());
            }
            if run(&program, &["-h", &folder, "-p", PORT]).is_ok() {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        bail!("Postgres is not ready within {START_TIMEOUT:?}")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The run is over.
        let _ = self.stop();
    }
}

/// Returns the folder of the programs of the newest version.
fn programs() -> Result<PathBuf> {
    let missing = "Postgres is not installed (apt-get install postgresql)";
    let entries = std::fs::read_dir("/usr/lib/postgresql").context(missing)?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    let programs = folders.pop().context(missing)?.join("bin");
    ensure!(programs.join("initdb").exists(), "{missing}");
    Ok(programs)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn as_its_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--pdeathsig", "QUIT"]);
    command.arg(program);
    command
}

fn launch(programs: &Path, folder: &Path) -> Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log"))?;
    let mut command = as_its_user(&programs.join("postgres"));
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    command.args(["-p", PORT, "-c", "listen_addresses="]).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().context("starting Postgres")
}
