//! The worker processes, which are stopped when this is dropped.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};

#[derive(Debug)]
pub(super) struct Workers {
    processes: Vec<Child>,
}

impl Workers {
    pub(super) fn start(
        server: SocketAddr,
        coordinator: &Path,
        processes: u64,
        threads: u64,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut workers = Self { processes: Vec::new() };
        for _ in 0..processes {
            let mut command = Command::new(&program);
            command.args(["exodus-worker", "--url", &format!("tcp://{server}"), "--coordinator"]);
            command.arg(coordinator).args(["--threads", &threads.to_string()]);
            command.args(["--end-with-parent", &std::process::id().to_string()]);
            workers.processes.push(command.spawn().context("starting a worker process")?);
        }
        Ok(workers)
    }

    /// Fails if one of them has ended.
    pub(super) fn check_running(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.try_wait()? {
                bail!("a worker process has ended: {status}");
            }
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // The run is over.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
