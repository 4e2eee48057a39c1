//! A process that was told to take no new jobs, and still runs.

use crate::finding::{Finding, Severity};
use crate::observation::{JobProcess, Observation};

pub(crate) const NAME: &str = "quiet-process";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    jobs.processes.iter().filter(|process| process.quiet).map(found).collect()
}

fn found(process: &JobProcess) -> Finding {
    let threads = process.concurrency();
    let evidence =
        format!("it takes no new jobs (TSTP); {} of its {threads} threads are busy", process.busy);
    Finding::new(NAME, Severity::Warning, format!("process {}", process.identity), evidence)
        .leads_to(format!(
            "{threads} threads serve nothing until it is restarted, on {}.",
            process.hostname
        ))
        .next(format!("kill -TERM {}", process.pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn a_quiet_process_is_named_with_its_threads() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes[0].quiet = true;
        let findings = check(&observation);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].consequence.starts_with("25 threads"));
        assert_eq!(findings[0].next.as_deref(), Some("kill -TERM 1"));
    }
}
