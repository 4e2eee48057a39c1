//! Reads this machine's cores and memory, and the CPU usage of processes, from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use weir_advisor::observation::{BusyProgram, CpuLimit, Fact, Machine, Missing, MissingReason};

use crate::commands;
use crate::cpu_limits::GroupCounters;
use crate::memory::{self, kilobytes};

/// Maximum number of processes whose CPU time is read. Each takes some microseconds.
const PROCESSES_MAX: usize = 5_000;
/// Programs that are named, busiest first.
const PROGRAMS_MAX: usize = 5;
/// Programs that use less of a core are not named.
const CORES_MIN: f64 = 0.1;

/// Where control groups are mounted, from the parent folder of `/proc`.
const CONTROL_GROUPS: &str = "sys/fs/cgroup";
/// Programs that may run jobs or serve requests, as the kernel names them. Only of these, the command line
/// is read.
const SERVERS: [&str; 9] =
    ["ruby", "sidekiq", "bundle", "puma", "unicorn", "pitchfork", "gunicorn", "python3", "node"];

/// CPU counters at one time. Two of them give usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counters {
    total: u64,
    idle: u64,
    stolen: u64,
    cores: u32,
    processes: BTreeMap<u32, ProcessTicks>,
    groups: GroupCounters,
}

/// CPU time of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProcessTicks {
    name: String,
    ticks: u64,
}

impl Counters {
    /// Reads the counters of the machine, of the processes `pids` and of others.
    pub(crate) fn read(proc: &Path, pids: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut counters = Self::parse(&fs::read_to_string(proc.join("stat")).ok()?)?;
        let job_processes: BTreeSet<u32> = pids.into_iter().collect();
        let others = memory::processes(proc).take(PROCESSES_MAX);
        for pid in job_processes.iter().copied().chain(others) {
            let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat"));
            if let Some(ticks) = stat.ok().and_then(|stat| process_ticks(&stat)) {
                counters.processes.insert(pid, ticks);
            }
        }
        let services = counters.services(proc, &job_processes);
        let mount = proc.parent().unwrap_or(proc).join(CONTROL_GROUPS);
        counters.groups = GroupCounters::read(proc, &mount, services);
        Some(counters)
    }

    /// Returns the processes that run jobs or serve requests, and this one, with their services.
    fn services(&self, proc: &Path, job_processes: &BTreeSet<u32>) -> Vec<(u32, String)> {
        let own = std::process::id();
        let service = |(pid, process): (&u32, &ProcessTicks)| {
            let service = match *pid {
                pid if pid == own => "weir".to_owned(),
                pid if job_processes.contains(&pid) => "sidekiq".to_owned(),
                _ if !SERVERS.iter().any(|it| process.name.starts_with(it)) => return None,
                pid => commands::service_of(proc, pid)?,
            };
            Some((*pid, service)).filter(|(_, it)| ["weir", "sidekiq", "web"].contains(&&**it))
        };
        self.processes.iter().filter_map(service).collect()
    }

    /// Returns the limits of CPU time of those processes, with the periods since `earlier`.
    pub(crate) fn cpu_limits_since(&self, earlier: &Self) -> Vec<CpuLimit> {
        self.groups.limits_since(&earlier.groups)
    }

    /// Parses `/proc/stat`. Its first line has the sums over all cores: user, nice, system, idle,
    /// iowait, ..; guest time is included in user. Each core has a line of its own.
    fn parse(stat: &str) -> Option<Self> {
        let all = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> =
            all.split_whitespace().map_while(|it| it.parse().ok()).take(8).collect();
        let idle = ticks.get(3)?.saturating_add(*ticks.get(4)?);
        let is_core = |line: &&str| {
            line.strip_prefix("cpu")
                .is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
        };
        let cores = u32::try_from(stat.lines().filter(is_core).count()).ok()?;
        let stolen = ticks.get(7).copied().unwrap_or_default();
        let (total, processes) = (ticks.iter().sum(), BTreeMap::new());
        Some(Self { total, idle, stolen, cores, processes, groups: GroupCounters::default() })
    }

    /// Returns the average number of idle cores since `earlier`.
    fn idle_since(&self, earlier: &Self) -> f64 {
        self.cores_of(self.idle.saturating_sub(earlier.idle), earlier)
    }

    /// Returns the average number of cores that a process has used since `earlier`.
    pub(crate) fn used_since(&self, earlier: &Self, pid: u32) -> Option<f64> {
        let (before, after) = (earlier.processes.get(&pid)?, self.processes.get(&pid)?);
        Some(self.cores_of(after.ticks.saturating_sub(before.ticks), earlier))
    }

    /// Returns the share of the cores' time that the hypervisor has taken since `earlier`.
    fn stolen_since(&self, earlier: &Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        if total == 0 { 0.0 } else { (stolen as f64 / total as f64).min(1.0) }
    }

    /// Returns the programs that have used most since `earlier`, busiest first.
    pub(crate) fn programs_since(&self, earlier: &Self) -> Vec<BusyProgram> {
        let program = |(pid, now): (&u32, &ProcessTicks)| {
            // One that has another name is another process, or has become another program.
            let before = earlier.processes.get(pid).filter(|before| before.name == now.name);
            let ticks = now.ticks.saturating_sub(before?.ticks);
            let cores = self.cores_of(ticks, earlier);
            (cores >= CORES_MIN).then(|| BusyProgram { name: now.name.clone(), pid: *pid, cores })
        };
        let mut programs: Vec<_> = self.processes.iter().filter_map(program).collect();
        programs.sort_by(|one, other| other.cores.total_cmp(&one.cores));
        programs.truncate(PROGRAMS_MAX);
        programs
    }

    fn cores_of(&self, ticks: u64, earlier: &Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        if total == 0 { 0.0 } else { ticks as f64 / total as f64 * f64::from(self.cores) }
    }
}

/// Returns user and system time. The fields follow the name in parentheses, which may contain any
/// character.
fn process_ticks(stat: &str) -> Option<ProcessTicks> {
    let (name, fields) = stat.rsplit_once(')')?;
    let (_, name) = name.split_once('(')?;
    let name = name.to_owned();
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(ProcessTicks { name, ticks: user.saturating_add(system) })
}

/// Returns the state of the machine between two samples.
pub(crate) fn machine(
    proc: &Path,
    earlier: Option<&Counters>,
    later: Option<&Counters>,
) -> Fact<Machine> {
    let memory = fs::read_to_string(proc.join("meminfo")).ok();
    let seen = || {
        let (memory, earlier, later) = (memory?, earlier?, later?);
        Some(Machine {
            cores: later.cores,
            memory_bytes: kilobytes(&memory, "MemTotal:")?,
            memory_available_bytes: kilobytes(&memory, "MemAvailable:")?,
            cores_idle: later.idle_since(earlier),
            oom_kills: oom_kills(&fs::read_to_string(proc.join("vmstat")).unwrap_or_default()),
            stolen_share: later.stolen_since(earlier),
            memory_stall_share: fs::read_to_string(proc.join("pressure/memory"))
                .ok()
                .and_then(|pressure| stall_share(&pressure)),
        })
    };
    seen().map_or_else(|| Fact::Unknown(unseen(proc)), Fact::Known)
}

/// Returns the share of the last minute in which all programs were stalled, from a file of
/// `/proc/pressure`: `full avg10=0.00 avg60=1.50 ..`, in percent.
fn stall_share(pressure: &str) -> Option<f64> {
    let full = pressure.lines().find_map(|line| line.strip_prefix("full "))?;
    let percent = full.split(' ').find_map(|field| field.strip_prefix("avg60="))?;
    percent.parse::<f64>().ok().map(|percent| (percent / 100.0).clamp(0.0, 1.0))
}

/// Returns the count in `/proc/vmstat`, which the kernel has had since version 4.13.
fn oom_kills(vmstat: &str) -> u64 {
    let count = vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

fn unseen(proc: &Path) -> Missing {
    Missing {
        what: "the machine's cores and memory".to_owned(),
        obstacle: MissingReason::NotSupported,
        reason: format!("{} does not have them", proc.display()),
        remedy: None,
    }
}

/// Returns the number of cores and the memory in bytes of this machine, if the kernel reports them.
#[must_use]
pub fn this_machine() -> Option<(u32, u64)> {
    let proc = Path::new("/proc");
    let cores = Counters::read(proc, [])?.cores;
    let memory = kilobytes(&fs::read_to_string(proc.join("meminfo")).ok()?, "MemTotal:")?;
    Some((cores, memory))
}

/// Returns the machine's host name, which processes on it report.
pub(crate) fn hostname(proc: &Path) -> Option<String> {
    let name = fs::read_to_string(proc.join("sys/kernel/hostname")).ok()?;
    Some(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(stat: &str) -> Counters {
        Counters::parse(stat).unwrap()
    }

    #[test]
    fn shares_are_of_all_cores() {
        let earlier = counters("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1\ncpu1 1\nintr 5\n");
        let mut later = counters("cpu  160 0 120 790 130 0 0 0 90 0\ncpu0 1\ncpu1 1\nintr 5\n");
        assert_eq!(later.cores, 2);
        // 200 ticks have passed, 120 of them idle; guest time is not counted twice.
        assert!((later.idle_since(&earlier) - 1.2).abs() < 1e-9);
        let mut earlier = earlier;
        let ticks = |ticks| ProcessTicks { name: "ruby".to_owned(), ticks };
        earlier.processes.insert(7, ticks(10));
        later.processes.insert(7, ticks(60));
        assert!((later.used_since(&earlier, 7).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(later.used_since(&earlier, 8), None);
        assert_eq!(later.idle_since(&later), 0.0);
        let programs = later.programs_since(&earlier);
        assert_eq!((programs.len(), programs[0].name.as_str(), programs[0].pid), (1, "ruby", 7));
        assert!((programs[0].cores - 0.5).abs() < 1e-9);
    }

    #[test]
    fn time_of_the_hypervisor_and_stalls_are_shares() {
        let earlier = counters("cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1\n");
        let later = counters("cpu  100 0 100 850 100 0 0 50 50 0\ncpu0 1\n");
        assert!((later.stolen_since(&earlier) - 0.25).abs() < 1e-9);
        let pressure = "some avg10=9.00 avg60=8.00 avg300=1.00 total=5\nfull avg10=2.00 avg60=1.50 avg300=0 total=1\n";
        assert_eq!(stall_share(pressure), Some(0.015));
        assert_eq!(stall_share("some avg10=0.00 avg60=0.00\n"), None);
    }

    #[test]
    fn a_name_with_parentheses_hides_no_fields() {
        let stat = "7 (sidekiq 6.4) [5 of 5) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9";
        let ticks = process_ticks(stat).unwrap();
        assert_eq!((ticks.ticks, ticks.name.as_str()), (300, "sidekiq 6.4) [5 of 5"));
        assert_eq!(process_ticks("7 sidekiq"), None);
    }

    #[test]
    fn processes_that_the_kernel_has_killed_are_counted() {
        assert_eq!(oom_kills("oom_kill_x 9\noom_kill 3\ndrop_pagecache 0\n"), 3);
        assert_eq!(oom_kills("nr_free_pages 7\n"), 0);
    }

    #[test]
    fn this_machine_can_be_seen() {
        let proc = Path::new("/proc");
        let own = std::process::id();
        let seen = Counters::read(proc, [own]).unwrap();
        assert!(seen.cores > 0 && seen.processes.contains_key(&own));
        let Fact::Known(machine) = machine(proc, Some(&seen), Some(&seen)) else { panic!() };
        assert!(machine.memory_bytes > machine.memory_available_bytes);
        assert!(!hostname(proc).unwrap().is_empty());
    }

    #[test]
    fn where_there_is_no_proc_it_is_unknown() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Counters::read(folder.path(), []), None);
        assert!(machine(folder.path(), None, None).missing().is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            let _ = Counters::parse(&format!("cpu  {text}"));
            let _ = (process_ticks(&text), stall_share(&text), kilobytes(&text, ""));
        }
    }
}
