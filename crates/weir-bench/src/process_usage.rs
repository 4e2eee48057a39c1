//! CPU and memory of a server under load, read from the system for a process and all its descendants, so
//! that a peer which runs helper processes (a database, a snapshot child) is charged for them.
//!
//! CPU comes in scheduler ticks (10 ms on most kernels): a run should last seconds. Children that have exited
//! and were waited for are charged to their parent (`cutime`, `cstime`), so nothing is counted twice or lost.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A reading of one set of processes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// User and system time since each process began.
    pub(crate) cpu: Duration,
    /// The kernel's part of it.
    pub(crate) system_cpu: Duration,
    /// Sum of `VmRSS`. Pages that a forked child shares with its parent count twice.
    pub(crate) rss_bytes: u64,
    /// Sum of `VmHWM`: each process's own peak since it began; an upper bound on the peak of the sum.
    pub(crate) peak_rss_bytes: u64,
    pub(crate) processes: usize,
}

/// One tick of the CPU figures.
pub(crate) fn cpu_resolution() -> Duration {
    Duration::from_secs(1) / u32::try_from(ticks_per_second()).unwrap_or(100)
}

/// Reads the processes `roots` and all their descendants. Fails if one of the roots does not exist.
pub(crate) fn read(roots: &[u32]) -> Result<Usage> {
    for pid in roots {
        let found = fs::exists(format!("/proc/{pid}/stat")).unwrap_or(false);
        ensure!(found, "--server-pid {pid}: no such process");
    }
    let mut usage = Usage::default();
    for pid in with_descendants(roots)? {
        // A child may exit between the listing and the reading; its time is then its parent's.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let stat = Stat::parse(&stat).with_context(|| format!("/proc/{pid}/stat"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        usage.cpu += ticks_to_duration(stat.cpu_ticks);
        usage.system_cpu += ticks_to_duration(stat.system_ticks);
        usage.rss_bytes += status_bytes(&status, "VmRSS:");
        usage.peak_rss_bytes += status_bytes(&status, "VmHWM:");
        usage.processes += 1;
    }
    Ok(usage)
}

fn with_descendants(roots: &[u32]) -> Result<BTreeSet<u32>> {
    let parents = parents_of_all_processes()?;
    let mut tree: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let before = tree.len();
        let children = parents.iter().filter(|(_, parent)| tree.contains(parent));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        tree.extend(children);
        if tree.len() == before {
            return Ok(tree);
        }
    }
}

fn parents_of_all_processes() -> Result<Vec<(u32, u32)>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("reading /proc")? {
        let name = entry.context("reading /proc")?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        if let Ok(stat) = Stat::parse(&stat) {
            parents.push((pid, stat.parent));
        }
    }
    Ok(parents)
}

/// The fields of `/proc/PID/stat` that matter here (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// utime + stime + cutime + cstime.
    cpu_ticks: u64,
    /// stime + cstime.
    system_ticks: u64,
}

impl Stat {
    fn parse(line: &str) -> Result<Self> {
        // The second field is the command in parentheses and may itself hold spaces and parentheses.
        let after_command = line.rsplit_once(')').context("no command field")?.1;
        let fields: Vec<&str> = after_command.split_ascii_whitespace().collect();
        ensure!(fields.len() > 14, "only {} fields after the command", fields.len());
        let ticks =
            |index: usize| fields[index].parse::<i64>().map(|ticks| ticks.max(0).unsigned_abs());
        Ok(Self {
            parent: fields[1].parse()?,
            cpu_ticks: ticks(11)? + ticks(12)? + ticks(13)? + ticks(14)?,
            system_ticks: ticks(12)? + ticks(14)?,
        })
    }
}

fn status_bytes(status: &str, key: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let kilobytes = line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn ticks_to_duration(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / ticks_per_second()))
}

fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_names_with_spaces_and_parentheses_are_parsed() {
        let line = "42 (a) b (c)) S 7 42 42 0 -1 4194560 1 2 3 4 100 20 3 1 20 0 5 0 999 1 2";
        let stat = Stat::parse(line).expect("valid line");
        assert_eq!(stat, Stat { parent: 7, cpu_ticks: 124, system_ticks: 21 });
    }

    #[test]
    fn short_lines_are_rejected() {
        assert!(Stat::parse("42 (x) S 1 2 3").is_err());
    }

    #[test]
    fn usage_includes_child_processes() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let usage = read(&[std::process::id()]).expect("own process is readable");
        child.kill().expect("child can be killed");
        child.wait().expect("child can be waited for");
        assert!(usage.processes >= 2, "{usage:?}");
        assert!(usage.rss_bytes > 0 && usage.peak_rss_bytes >= usage.rss_bytes / 2, "{usage:?}");
    }

    #[test]
    fn error_names_the_missing_process() {
        let error = read(&[u32::MAX]).expect_err("no such process").to_string();
        assert!(error.contains("--server-pid 4294967295"), "{error}");
    }
}
