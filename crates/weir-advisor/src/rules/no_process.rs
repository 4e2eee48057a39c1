//! No process takes jobs.

use crate::finding::{Finding, Severity};
use crate::observation::{Jobs, Observation};
use crate::wording;

pub(crate) const NAME: &str = "no-process";

const UNITS: &str = "systemctl list-unit-files '*sidekiq*'";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let jobs = observation.jobs.known();
    let nobody = |jobs: &&Jobs| !jobs.has_more_processes && jobs.serving().next().is_none();
    jobs.filter(nobody).and_then(found).into_iter().collect()
}

/// Without jobs, quiet processes are a deployment, and where Sidekiq has no key at all another rule speaks.
fn found(jobs: &Jobs) -> Option<Finding> {
    if jobs.backlog() > 0 {
        return Some(waiting(jobs));
    }
    let is_gone = jobs.processes.is_empty() && !jobs.is_nowhere();
    let evidence = "no Sidekiq process has a heartbeat; no job waits yet";
    is_gone.then(|| {
        Finding::new(NAME, Severity::Warning, "Sidekiq", evidence)
            .leads_to("Its keys are there and nobody works: the next job will wait, and what is scheduled stays where it is.")
            .next(UNITS)
    })
}

fn waiting(jobs: &Jobs) -> Finding {
    let waiting = wording::jobs_wait(jobs.backlog());
    let evidence = match jobs.processes.len() {
        0 => format!("{waiting} and no Sidekiq process has a heartbeat"),
        1 => format!("{waiting} and the one process that there is is quiet"),
        quiet => format!("{waiting} and all {quiet} processes are quiet"),
    };
    Finding::new(NAME, Severity::Critical, "Sidekiq", evidence)
        .leads_to(
            "Nothing is worked off. Sidekiq's units, running or not, are in the list; start yours.",
        )
        .next(UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn waiting_jobs_without_a_process_are_found() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes.clear();
        assert!(check(&observation)[0].evidence.contains("no Sidekiq process"));
        for queue in &mut observation.jobs.known_mut().queues {
            queue.length = 0;
        }
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next.as_deref()), (Severity::Warning, Some(UNITS)));
        *observation.jobs.known_mut() = Jobs::default();
        assert_eq!(check(&observation), [], "where nothing is, no process is missed");
    }

    #[test]
    fn a_deployment_without_jobs_is_no_news() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.queues.iter_mut().for_each(|queue| queue.length = 0);
        jobs.processes.iter_mut().for_each(|process| process.quiet = true);
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn quiet_processes_do_not_serve() {
        let mut observation = healthy::observation();
        for process in &mut observation.jobs.known_mut().processes {
            process.quiet = true;
        }
        assert!(check(&observation)[0].evidence.contains("all 2 processes are quiet"));
    }
}
