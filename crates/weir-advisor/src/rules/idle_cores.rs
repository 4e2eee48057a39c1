//! A process uses a full core while another core is idle, or while its jobs wait: Ruby runs one thread
//! of a process at a time.

use std::time::Duration;

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{
    Capsule, JobProcess, Machine, Observation, ObservedQueue, ProcessPlace, SidekiqObservation,
};
use crate::plan::ProcessMemory;
use crate::queue_line;
use crate::rules::cpu_limit;
use crate::wording;

pub(crate) const NAME: &str = "idle-cores";

/// Share of a core. The interpreter's lock prevents a process from using much more.
pub(super) const CORE_SHARE: f64 = 0.9;
/// Share of busy threads. With fewer, additional processes would not help.
const BUSY_SHARE: f64 = 0.8;
/// Minimum idle part of a core. On a machine with two cores, the kernel, Redis and the observer
/// always use some of the second. With this much idle, an additional process is nearly as fast as
/// the full one.
const IDLE_MIN: f64 = 0.8;
/// Latency from which jobs wait for a process that has no core for another one beside it.
const LATE_MIN: Duration = Duration::from_secs(60);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let (Some(jobs), Some(machine)) = (observation.jobs.known(), observation.machine.known())
    else {
        return Vec::new();
    };
    let is_needed = |it: &&JobProcess| is_idle(machine) || jobs_wait_for(jobs, it);
    // The limit of its group, which another rule reports, is the cause then.
    let is_limited = |it: &&JobProcess| {
        it.place == ProcessPlace::Here && cpu_limit::throttles(observation, it.pid)
    };
    let processes = jobs.serving().filter(|it| !is_limited(it));
    processes.filter(is_needed).filter_map(|process| found(process, machine)).collect()
}

/// Reports whether the machine has a core for another process.
fn is_idle(machine: &Machine) -> bool {
    machine.cores_idle >= IDLE_MIN
}

/// Reports whether jobs have waited for the process for long.
fn jobs_wait_for(jobs: &SidekiqObservation, process: &JobProcess) -> bool {
    let is_late = |queue: &ObservedQueue| queue.length > 0 && queue.latency >= LATE_MIN;
    jobs.queues.iter().any(|queue| process.serves(&queue.name) && is_late(queue))
}

/// Reports whether nearly all of its threads run jobs.
pub(super) fn has_all_threads_busy(process: &JobProcess) -> bool {
    let threads = process.concurrency();
    threads > 0 && process.busy as f64 >= BUSY_SHARE * f64::from(threads)
}

fn found(process: &JobProcess, machine: &Machine) -> Option<Finding> {
    let used = *process.cores_used.known()?;
    let (threads, cores_idle) = (process.concurrency(), machine.cores_idle);
    // Threads that wait for the interpreter's lock may not have reported their job yet, so that a
    // heartbeat shows too few busy ones. Jobs that wait show the same.
    let is_busy = !is_idle(machine) || has_all_threads_busy(process);
    if used < CORE_SHARE || !is_busy || threads < 2 {
        return None;
    }
    let evidence = format!(
        "{} of {threads} threads are busy, it uses {used:.1} cores and {cores_idle:.1} are idle",
        process.busy
    );
    let finding =
        Finding::new(NAME, Severity::Warning, format!("process {}", process.identity), evidence)
            .with_confidence(Confidence::Likely)
            .leads_to("One Ruby process uses one core; its threads wait for each other.");
    if !is_idle(machine) {
        let consequence = format!(
            "{} More threads do not help. Another process would, but no core of this machine is idle \
             for it: stop what else uses them, or run that process on another machine.",
            finding.consequence
        );
        return Some(finding.leads_to(consequence));
    }
    if lacks_memory(machine) {
        let consequence = format!(
            "{} Another process would help, but only {} of memory are available, and a Ruby process \
             of an application takes {} or more.",
            finding.consequence,
            wording::bytes(machine.memory_available_bytes),
            wording::bytes(ProcessMemory::default().ruby_bytes)
        );
        return Some(finding.leads_to(consequence));
    }
    // With several capsules, it is unknown which one is busy.
    Some(match process.capsules.as_slice() {
        [capsule] if can_be_shared(capsule) => queue_line::in_two(finding, process, capsule),
        _ => finding,
    })
}

/// Reports whether the machine has no memory for another process; 0: unknown.
fn lacks_memory(machine: &Machine) -> bool {
    let available = machine.memory_available_bytes;
    available > 0 && available < ProcessMemory::default().ruby_bytes
}

/// Reports whether another process can serve some of its queues.
fn can_be_shared(capsule: &Capsule) -> bool {
    capsule.queues.iter().any(|queue| queue.name != "scheduler")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::Fact;

    #[test]
    fn a_full_process_beside_idle_cores_is_to_be_split() {
        for (cores_used, busy, cores_idle, findings) in [
            (0.95, 25, 2.0, 1),
            (0.5, 25, 2.0, 0),
            (0.95, 19, 2.0, 0),
            (0.95, 25, 0.79, 0),
            (0.95, 25, 0.81, 1),
            (0.91, 25, 1.1, 1),
            (0.85, 25, 2.0, 0),
        ] {
            let mut observation = healthy::observation();
            observation.machine.known_mut().cores_idle = cores_idle;
            let process = &mut observation.jobs.known_mut().processes[0];
            (process.cores_used, process.busy) = (Fact::Known(cores_used), busy);
            let found = check(&observation);
            assert_eq!(found.len(), findings, "{cores_used} {busy} {cores_idle}");
            for finding in found {
                let line = finding.line_change().unwrap().line.clone();
                let queues = "-q default,8 -q push,6 -q ingress,4 -q mailers,2 -q pull,1 -q fasp,1";
                assert_eq!(line, format!("sidekiq -c 13 {queues}; sidekiq -c 12 {queues}"));
            }
        }
    }

    #[test]
    fn a_full_process_without_an_idle_core_is_reported_while_its_jobs_wait() {
        for (seconds, findings) in [(60, 1), (59, 0)] {
            let mut observation = healthy::observation();
            observation.machine.known_mut().cores_idle = 0.05;
            let jobs = observation.jobs.known_mut();
            jobs.queue_mut("push").latency = Duration::from_secs(seconds);
            (jobs.processes[0].cores_used, jobs.processes[0].busy) = (Fact::Known(0.95), 6);
            let found = check(&observation);
            assert_eq!(found.len(), findings, "{seconds}");
            for finding in found {
                assert_eq!((finding.line_change(), finding.next_step()), (None, None));
                let expected = "More threads do not help. Another process would, but no core";
                assert!(finding.consequence.contains(expected), "{}", finding.consequence);
            }
        }
    }

    #[test]
    fn no_second_process_is_suggested_without_memory_for_it() {
        let mut observation = healthy::observation();
        let process = &mut observation.jobs.known_mut().processes[0];
        (process.cores_used, process.busy) = (Fact::Known(0.95), 25);
        assert!(check(&observation)[0].line_change().is_some());
        observation.machine.known_mut().memory_available_bytes = 200 << 20;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.line_change(), None);
        assert!(finding.consequence.contains("only 200 MB of memory are available"));
    }
}
