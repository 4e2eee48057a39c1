//! Memory, descriptors, threads and disk of each node, every few seconds.

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
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
        sample.descriptors += descriptors.count() as u64;
    }
    Some(sample)
}
