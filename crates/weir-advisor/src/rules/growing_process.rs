//! The memory of a process grows so fast that it will be used up.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{JobProcess, Machine, MemoryGrowth, Observation, ProcessPlace};
use crate::wording::{self, bytes};

pub(crate) const NAME: &str = "growing-process";

/// Growth that a process shows for a while after its start, and after each large job.
const GROWTH_MIN_BYTES: u64 = 64 << 20;
/// Share of its memory that must be new. A process that has all of its code and caches grows less.
const GROWTH_SHARE: f64 = 0.1;
/// A longer growth is no single large job.
const LONG: Duration = Duration::from_secs(900);
/// Time to the end of memory from which a long growth is a warning.
const LEFT_MAX: Duration = Duration::from_secs(24 * 3_600);
/// The same of a growth that was seen for a short time only, which may end.
const LEFT_MAX_SHORT: Duration = Duration::from_secs(900);
/// A process that loads its code grows as well.
const STARTED: Duration = Duration::from_secs(60);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let machine = observation.machine.known();
    let alive = jobs.processes.iter().filter(|process| process.is_alive());
    alive.filter_map(|process| found(process, machine)).collect()
}

fn found(process: &JobProcess, machine: Option<&Machine>) -> Option<Finding> {
    let (growth, rss) = (process.growth?, process.rss_bytes?);
    let is_large =
        growth.bytes >= GROWTH_MIN_BYTES && growth.bytes as f64 >= GROWTH_SHARE * rss as f64;
    let has_started = process.running_for.is_none_or(|age| age >= STARTED + growth.over);
    let machine = machine.filter(|_| process.place == ProcessPlace::Here);
    let left = machine.and_then(|machine| left(growth, machine));
    let severity = match left {
        _ if !is_large || !has_started => return None,
        Some(left) if growth.over >= LONG && left <= LEFT_MAX => Severity::Warning,
        Some(left) if left <= LEFT_MAX_SHORT => Severity::Warning,
        _ if growth.over >= LONG => Severity::Notice,
        _ => return None,
    };
    let evidence = format!(
        "it has {} of memory, {} more than {} ago",
        bytes(rss),
        bytes(growth.bytes),
        wording::duration(growth.over)
    );
    let subject = format!("process {}", process.identity);
    let finding = Finding::new(NAME, severity, subject, evidence);
    Some(with_command(finding.leads_to(consequence(process, machine.zip(left))), process))
}

/// Returns the time until the machine's available memory is used up.
fn left(growth: MemoryGrowth, machine: &Machine) -> Option<Duration> {
    let seconds = machine.memory_available_bytes as f64 / growth.bytes_per_second()?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn consequence(process: &JobProcess, left: Option<(&Machine, Duration)>) -> String {
    let end = match left {
        Some((machine, left)) => format!(
            "If that goes on, the {} that are available on this machine are used up in {}, and the kernel \
             kills a process: its jobs in progress are lost.",
            bytes(machine.memory_available_bytes),
            wording::duration(left)
        ),
        None => {
            "If that goes on, the memory of its machine is used up, and the kernel kills a process."
                .to_owned()
        }
    };
    let running = match classes(process) {
        Some(classes) => format!(" Its jobs in progress are {classes}."),
        None => String::new(),
    };
    format!(
        "{end}{running} A leak in the application or a gem, or jobs that load much at once. A restart (TERM, \
         which lets jobs end) frees the memory; MALLOC_ARENA_MAX=2 in its environment reduces what \
         fragmentation adds."
    )
}

/// Names the most frequent classes of its jobs in progress.
fn classes(process: &JobProcess) -> Option<String> {
    let mut classes: Vec<&str> = process.in_hand.iter().map(|job| job.class.as_str()).collect();
    classes.retain(|class| !class.is_empty());
    classes.sort_unstable();
    classes.dedup();
    classes.truncate(3);
    (!classes.is_empty()).then(|| wording::list(classes))
}

fn with_command(finding: Finding, process: &JobProcess) -> Finding {
    let command = format!("grep -E 'VmHWM|VmRSS|RssAnon|Threads' /proc/{}/status", process.pid);
    let is_known = process.pid != 0 && process.place != ProcessPlace::Unconfirmed;
    finding.next_if(process.there(&command).filter(|_| is_known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn severity(mib: u64, seconds: u64, available_mib: u64) -> Option<Severity> {
        let mut observation = healthy::observation();
        observation.machine.known_mut().memory_available_bytes = available_mib << 20;
        let process = &mut observation.jobs.known_mut().processes[0];
        process.running_for = Some(Duration::from_secs(86_400));
        process.growth =
            Some(MemoryGrowth { bytes: mib << 20, over: Duration::from_secs(seconds) });
        check(&observation).first().map(|finding| finding.severity)
    }

    #[test]
    fn growth_that_ends_the_memory_soon_is_a_warning() {
        assert_eq!(severity(600, 3_600, 3_000), Some(Severity::Warning), "in 5 h");
        assert_eq!(severity(70, 3_600, 64_000), Some(Severity::Notice), "in 38 days");
        assert_eq!(severity(63, 3_600, 3_000), None);
        assert_eq!(severity(100, 10, 500), Some(Severity::Warning), "in 50 s");
        assert_eq!(severity(100, 10, 64_000), None, "one large job");
    }

    #[test]
    fn a_process_that_loads_its_code_does_not_leak() {
        let mut observation = healthy::observation();
        observation.machine.known_mut().memory_available_bytes = 500 << 20;
        let process = &mut observation.jobs.known_mut().processes[0];
        process.growth = Some(MemoryGrowth { bytes: 100 << 20, over: Duration::from_secs(10) });
        process.running_for = Some(Duration::from_secs(15));
        assert_eq!(check(&observation), []);
        observation.jobs.known_mut().processes[0].running_for = Some(Duration::from_secs(71));
        let finding = check(&observation).remove(0);
        assert_eq!(finding.evidence, "it has 350 MB of memory, 100 MB more than 10 s ago");
        assert_eq!(
            finding.next_step(),
            Some("grep -E 'VmHWM|VmRSS|RssAnon|Threads' /proc/1/status")
        );
    }
}
