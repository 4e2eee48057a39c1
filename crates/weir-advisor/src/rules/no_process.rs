//! Jobs wait and no process takes any.

use crate::finding::{Finding, Severity};
use crate::observation::{Jobs, Observation};
use crate::wording;

pub(crate) const NAME: &str = "no-process";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let jobs = observation.jobs.known();
    let nobody = |jobs: &&Jobs| {
        jobs.backlog() > 0 && !jobs.has_more_processes && jobs.serving().next().is_none()
    };
    jobs.filter(nobody).map(found).into_iter().collect()
}

fn found(jobs: &Jobs) -> Finding {
    let waiting = wording::count(jobs.backlog());
    let evidence = match jobs.processes.len() {
        0 => format!("{waiting} jobs wait and no Sidekiq process has a heartbeat"),
        quiet => format!("{waiting} jobs wait and all {quiet} processes are quiet"),
    };
    Finding::new(NAME, Severity::Critical, "Sidekiq", evidence)
        .leads_to(
            "Nothing is worked off. Sidekiq's units, running or not, are in the list; start yours.",
        )
        .next("systemctl list-unit-files '*sidekiq*'")
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
