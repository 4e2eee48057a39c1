//! A process uses a full core while another core is idle: Ruby runs one thread of a process at a
//! time.

use crate::finding::{Finding, Severity};
use crate::observation::{Capsule, JobProcess, Observation};
use crate::queue_line;

pub(crate) const NAME: &str = "idle-cores";

/// Share of a core. The interpreter's lock prevents a process from using much more.
const CORE_SHARE: f64 = 0.9;
/// Share of busy threads. With fewer, additional processes would not help.
const BUSY_SHARE: f64 = 0.8;
/// Minimum idle part of a core. On a machine with two cores, the kernel, Redis and the observer
/// always use some of the second. With this much idle, an additional process is nearly as fast as
/// the full one.
const IDLE_MIN: f64 = 0.8;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let (Some(jobs), Some(machine)) = (observation.jobs.known(), observation.machine.known())
    else {
        return Vec::new();
    };
    if machine.cores_idle < IDLE_MIN {
        return Vec::new();
    }
    jobs.serving().filter_map(|process| found(process, machine.cores_idle)).collect()
}

fn found(process: &JobProcess, cores_idle: f64) -> Option<Finding> {
    let used = *process.cores_used.known()?;
    let threads = process.concurrency();
    let busy = process.busy as f64 >= BUSY_SHARE * f64::from(threads);
    if used < CORE_SHARE || !busy || threads < 2 {
        return None;
    }
    let evidence = format!(
        "{} of {threads} threads are busy, it uses {used:.1} cores and {cores_idle:.1} are idle",
        process.busy
    );
    let finding =
        Finding::new(NAME, Severity::Warning, format!("process {}", process.identity), evidence)
            .leads_to("One Ruby process uses one core; its threads wait for each other.");
    // With several capsules, it is unknown which one is busy.
    Some(match process.capsules.as_slice() {
        [capsule] if can_be_shared(capsule) => queue_line::in_two(finding, process, capsule),
        _ => finding,
    })
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
                let line = finding.change.unwrap().line;
                let queues = "-q default,8 -q push,6 -q ingress,4 -q mailers,2 -q pull,1 -q fasp,1";
                assert_eq!(line, format!("sidekiq -c 13 {queues}; sidekiq -c 12 {queues}"));
            }
        }
    }
}
