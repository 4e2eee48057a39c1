//! The application's new version pushes to a queue that no process serves. Found before the first
//! job waits.

use crate::action::Assignment;
use crate::finding::{Finding, Severity};
use crate::observation::{Observation, SidekiqObservation};
use crate::queue_line::Repaired;
use crate::{shell, wording};

pub(crate) const NAME: &str = "upgrade-guard";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let (Some(jobs), Some(pushed)) = (observation.jobs.known(), observation.pushed_queues.known())
    else {
        return Vec::new();
    };
    if jobs.serving().next().is_none() {
        return without_process(jobs, pushed).into_iter().collect();
    }
    // Other rules report queues with jobs, and the scheduler.
    let said = |name: &str| name == "scheduler" || jobs.queue(name).is_some_and(|it| it.length > 0);
    // Other rules report queues whose process is quiet or gone.
    let unserved = |name: &&String| {
        jobs.nobody_serves(name) && !said(name) && jobs.absent_servers(name).next().is_none()
    };
    let repaired = Repaired::of(observation);
    pushed.iter().filter(unserved).map(|name| found(&repaired, name)).collect()
}

/// Lists the queues to serve when no process is running; another rule reports that none is. Skipped
/// if processes are quiet, which indicates a deployment, or if the Redis has no Sidekiq keys,
/// because Sidekiq may use another one.
fn without_process(jobs: &SidekiqObservation, pushed: &[String]) -> Option<Finding> {
    let is_gone = jobs.processes.is_empty() && !jobs.has_more_processes && !jobs.is_nowhere();
    if !is_gone || pushed.is_empty() {
        return None;
    }
    let (subject, them) = match pushed.len() {
        1 => ("queue", "it"),
        _ => ("queues", "them"),
    };
    let names = wording::list(pushed.iter().map(String::as_str));
    let evidence = format!("the application pushes to {them} and no running process serves {them}");
    let flags: Vec<String> =
        pushed.iter().map(|name| format!("-q {}", shell::word(name))).collect();
    let finding = Finding::new(NAME, Severity::Warning, format!("{subject} {names}"), evidence)
        .leads_to("The units that you start must serve all of them, in one process or several.");
    let place =
        "the command lines of Sidekiq's processes (or :queues: of its sidekiq.yml), together";
    Some(
        finding
            .change(place, flags.join(" "))
            .assigns(Assignment::Start { queues: pushed.to_vec() }),
    )
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
        .leads_to("Its first job will wait until a process serves it.");
    repaired.change(finding, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise;
    use crate::healthy;

    #[test]
    fn a_queue_that_a_version_brings_is_found_before_its_first_job() {
        let mut observation = healthy::observation();
        observation.pushed_queues.known_mut().push("trends".to_owned());
        let finding = check(&observation).remove(0);
        assert_eq!(finding.subject, "queue trends");
        let line = finding.line_change().unwrap().line.clone();
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
    fn without_any_process_the_queues_are_said_once_beside_that_nothing_runs() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        let quiet = jobs.processes.clone();
        jobs.processes.clear();
        jobs.queues.iter_mut().for_each(|queue| queue.length = 0);
        *observation.pushed_queues.known_mut() = ["default", "a b"].map(str::to_owned).to_vec();
        let findings = advise(&observation).findings;
        let rules: Vec<_> = findings.iter().map(|it| &*it.rule).collect();
        assert_eq!(rules, ["no-process", NAME]);
        assert_eq!(findings[1].subject, "queues default and a b");
        assert_eq!(findings[1].line_change().unwrap().line, "-q default -q 'a b'");

        observation.jobs.known_mut().processes = quiet;
        observation.jobs.known_mut().processes.iter_mut().for_each(|it| it.quiet = true);
        assert_eq!(check(&observation), [], "a deployment");
        *observation.jobs.known_mut() = SidekiqObservation::default();
        assert_eq!(check(&observation), [], "it may be another place");
    }

    #[test]
    fn with_jobs_waiting_another_rule_says_it() {
        let mut observation = healthy::observation();
        observation.jobs.known_mut().processes[0].capsules[0].queues.pop();
        assert_eq!(check(&observation), []);
    }
}
