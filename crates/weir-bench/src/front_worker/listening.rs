//! Listening sockets.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fd::OwnedFd;

/// Connections that wait to be accepted; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 4096;
/// Placeholder for a process's number.
const INDEX: &str = "{index}";

pub(super) fn bind_port(port: u16) -> Result<(OwnedFd, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.with_context(|| format!("--port {port}"))?;
    let address = listener.local_addr()?;
    let listener = OwnedFd::from(listener);
    rustix::net::listen(&listener, BACKLOG)?;
    Ok((listener, address))
}

/// Binds a unix socket. Replaces the file of an earlier run.
pub(super) fn bind_path(path: &Path, index: usize) -> Result<OwnedFd> {
    let path = path_for_index(path, index);
    if path.exists() {
        std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
    }
    let listener = UnixListener::bind(&path).with_context(|| path.display().to_string())?;
    let listener = OwnedFd::from(listener);
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

pub(super) fn has_index_placeholder(path: &Path) -> bool {
    path.to_string_lossy().contains(INDEX)
}

fn path_for_index(path: &Path, index: usize) -> PathBuf {
    path.to_string_lossy().replace(INDEX, &index.to_string()).into()
}
