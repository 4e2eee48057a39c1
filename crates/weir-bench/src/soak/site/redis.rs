//! The Redis of several nodes, with an append-only file.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::commands::{signal, stop, with_parent};
use crate::clock::monotonic;
use crate::weir_process::{POLL_INTERVAL, START_TIMEOUT};

const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(in crate::soak) struct Redis {
    address: SocketAddr,
    folder: PathBuf,
    process: Child,
}

impl Redis {
    pub(super) fn start(address: Ipv4Addr, folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let listener = TcpListener::bind((address, 0)).context("finding a port for Redis")?;
        let address = listener.local_addr()?;
        drop(listener);
        let process = launch(address, folder)?;
        let mut redis = Self { address, folder: folder.to_owned(), process };
        redis.wait_until_ready()?;
        Ok(redis)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    pub(in crate::soak) fn pause(&self) -> Result<()> {
        signal(self.process.id(), Signal::STOP)
    }

    pub(in crate::soak) fn resume(&self) -> Result<()> {
        signal(self.process.id(), Signal::CONT)
    }

    pub(in crate::soak) fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    pub(in crate::soak) fn restart(&mut self) -> Result<()> {
        self.process = launch(self.address, &self.folder)?;
        self.wait_until_ready()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = monotonic() + START_TIMEOUT;
        while monotonic() < deadline {
            if let Some(status) = self.process.try_wait()? {
                bail!("redis-server has ended: {status}; see {}", self.folder.display());
            }
            if is_ready(self.address) {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        bail!("redis-server is not ready within {START_TIMEOUT:?}")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may be paused.
        let _ = self.resume();
        stop(&mut self.process, STOP_TIMEOUT);
    }
}

fn launch(address: SocketAddr, folder: &Path) -> Result<Child> {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = with_parent("KILL", "redis-server");
    command.args(["--bind", &host, "--port", &port, "--protected-mode", "no"]);
    command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
    command.args(["--logfile", "log", "--dir"]).arg(folder).stdout(Stdio::null());
    command.spawn().context("starting redis-server (apt-get install redis-server)")
}

fn is_ready(address: SocketAddr) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply)?;
        Ok(&reply == b"+PONG")
    };
    ping().unwrap_or(false)
}
