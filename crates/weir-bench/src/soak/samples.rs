//! Memory, descriptors, threads and disk of each node, every few seconds.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Serialize;

use super::shared::Shared;
use super::site::{bytes_of, processes_of};
use crate::clock::monotonic;

const INTERVAL: Duration = Duration::from_secs(5);

/// Figures of a parent and its service processes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Sample {
    /// Since the beginning of the load.
    #[serde(serialize_with = "crate::checks::as_seconds")]
    pub(super) at: Duration,
    pub(super) rss_bytes: u64,
    /// Without connections of clients, which move to another node when theirs has a fault.
    pub(super) descriptors: u64,
    pub(super) threads: u64,
    pub(super) disk_bytes: u64,
    /// A part of the life of a process begins with another service process.
    #[serde(skip)]
    pub(super) service: u32,
}

/// The pid of each node's parent process; 0 while it does not run.
#[derive(Debug, Clone)]
pub(super) struct Pids(Arc<Vec<AtomicU32>>);

impl Pids {
    pub(super) fn new(nodes: usize) -> Self {
        Self(Arc::new((0..nodes).map(|_| AtomicU32::new(0)).collect()))
    }

    pub(super) fn set(&self, node: usize, pid: Option<u32>) {
        self.0[node].store(pid.unwrap_or(0), Ordering::SeqCst);
    }

    fn get(&self, node: usize) -> Option<u32> {
        Some(self.0[node].load(Ordering::SeqCst)).filter(|pid| *pid != 0)
    }
}

/// Samples all nodes until the run is over. Returns the samples of each node.
pub(super) fn run(
    shared: &Shared,
    pids: &Pids,
    data_dirs: &[PathBuf],
    start: Duration,
) -> Vec<Vec<Sample>> {
    let mut samples = vec![Vec::new(); data_dirs.len()];
    while !shared.is_over() {
        for (node, data_dir) in data_dirs.iter().enumerate() {
            let sample = pids.get(node).and_then(|pid| sample(pid, data_dir, start));
            samples[node].extend(sample);
        }
        shared.sleep(INTERVAL);
    }
    samples
}

/// Returns `None` while the node has no service process.
fn sample(parent: u32, data_dir: &Path, start: Duration) -> Option<Sample> {
    let processes = processes_of(parent);
    let service = processes.iter().copied().rev().find(|pid| *pid != parent)?;
    let at = monotonic().saturating_sub(start);
    let disk_bytes = bytes_of(data_dir).ok()?;
    let mut sample = Sample { at, disk_bytes, service, ..Sample::default() };
    for pid in processes {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let number = |key: &str| -> Option<u64> {
            let rest = status.lines().find_map(|line| line.strip_prefix(key))?;
            rest.split_whitespace().next()?.parse().ok()
        };
        sample.rss_bytes += number("VmRSS:")? * 1_024;
        sample.threads += number("Threads:")?;
        sample.descriptors += descriptors(pid)?;
    }
    Some(sample)
}

/// Returns the number of descriptors that are no established TCP connection. A connection that the client has closed, and
/// the process has not, counts.
fn descriptors(pid: u32) -> Option<u64> {
    let connections = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).ok()?;
    let established: HashSet<&str> = connections.lines().filter_map(established_inode).collect();
    let is_connection = |link: &Path| {
        let name = link.to_str().and_then(|link| link.strip_prefix("socket:["));
        name.is_some_and(|inode| established.contains(inode.trim_end_matches(']')))
    };
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    // One that was closed meanwhile has no link.
    let links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    Some(links.filter(|link| !is_connection(link)).count() as u64)
}

/// Returns the inode of a line of `/proc/PID/net/tcp` if the state is established (proc_pid_net(5)).
fn established_inode(line: &str) -> Option<&str> {
    let mut columns = line.split_whitespace();
    let state = columns.nth(3)?;
    columns.nth(5).filter(|_| state == "01")
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn inodes_of_established_connections_are_read() {
        let line = "   1: 0100007F:8AE0 0100007F:1CFB 01 00000000:00000000 00:00000000 00000000     0        0 215190 1 0 20 4 30 10 -1";
        assert_eq!(established_inode(line), Some("215190"));
        assert_eq!(established_inode(&line.replace(" 01 ", " 08 ")), None);
        assert_eq!(established_inode("  sl  local_address rem_address   st tx_queue"), None);
    }

    #[test]
    fn connections_of_clients_are_no_descriptors_until_the_client_has_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let clients: Vec<_> = (0..100).map(|_| connect()).collect();
        let accepted: Vec<_> = (0..100).map(|_| listener.accept().unwrap()).collect();
        let while_connected = descriptors(std::process::id()).unwrap();
        drop(clients);
        let mut afterwards = descriptors(std::process::id()).unwrap();
        while afterwards < while_connected + 90 {
            std::thread::yield_now();
            afterwards = descriptors(std::process::id()).unwrap();
        }
        drop(accepted);
    }
}
