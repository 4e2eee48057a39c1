//! The application's version pushes to a queue that no process serves, before the first job does.

use crate::finding::{Finding, Severity};
use crate::observation::Observation;
use crate::queue_line::Repaired;

pub(crate) const NAME: &str = "upgrade-guard";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let (Some(jobs), Some(pushed)) = (observation.jobs.known(), observation.pushed_queues.known())
    else {
        return Vec::new();
    };
    if jobs.serving().next().is_none() {
        return Vec::new();
    }
    // With jobs in it, or for the scheduler, other rules say it.
    let said = |name: &str| name == "scheduler" || jobs.queue(name).is_some_and(|it| it.length > 0);
    let unserved = |name: &&String| jobs.nobody_serves(name) && !said(name);
    let repaired = Repaired::of(observation);
    pushed.iter().filter(unserved).map(|name| found(&repaired, name)).collect()
}

fn found(repaired: &Repaired<'_>, name: &str) -> Finding {
    let hint = repaired
        .misspelt(name)
        .map(|(_, served)| format!("; \"{served}\" is served: did you mean \"{name}\"?"));
    let evidence = format!(
        "the application pushes to it and no process serves it{}",
        hint.unwrap_or_default()
    );
    let finding = Finding::new(NAME, Severity::Warning, format!("queue {name}"), evidence)
        .leads_to("Its first job will wait for ever.");
    repaired.change(finding, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn a_queue_that_a_version_brings_is_found_before_its_first_job() {
        let mut observation = healthy::observation();
        observation.pushed_queues.known_mut().push("trends".to_owned());
        let finding = check(&observation).remove(0);
        assert_eq!(finding.subject, "queue trends");
        let line = finding.change.unwrap().line;
        assert!(line.starts_with("-q default,8 ") && line.ends_with(" -q trends,1"), "{line}");
    }

    #[test]
    fn a_misspelt_flag_is_recognised() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes[0].capsules[0].queues[3].name = "mailer".to_owned();
        jobs.queue_mut("mailers").length = 0;
        assert!(check(&observation)[0].evidence.ends_with("did you mean \"mailers\"?"));
    }

    #[test]
    fn with_jobs_waiting_another_rule_says_it() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes[0].capsules[0].queues.pop();
        assert_eq!(check(&observation), []);
    }
}
