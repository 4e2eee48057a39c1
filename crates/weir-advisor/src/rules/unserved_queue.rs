//! Jobs wait in a queue that no process serves: its name is misspelt somewhere, or forgotten.

use weir_base::hint;

use crate::finding::{Finding, Severity};
use crate::observation::{Jobs, Observation, Queue};
use crate::wording;

pub(crate) const NAME: &str = "unserved-queue";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    // Without any process all are unserved, and another rule says so once.
    if jobs.serving().next().is_none() {
        return Vec::new();
    }
    let unserved =
        |queue: &&Queue| queue.length > 0 && !queue.paused && jobs.nobody_serves(&queue.name);
    jobs.queues.iter().filter(unserved).map(|queue| found(jobs, queue)).collect()
}

fn found(jobs: &Jobs, queue: &Queue) -> Finding {
    let name = &queue.name;
    let waiting = wording::count(queue.length);
    let oldest = wording::duration(queue.latency);
    let evidence =
        format!("{waiting} jobs wait, the oldest for {oldest}, and no process serves it");
    let finding = |evidence| {
        Finding::new(NAME, Severity::Critical, format!("queue {name}"), evidence)
            .leads_to("Its jobs are never worked off.")
    };
    match misspelt(jobs, name) {
        None => finding(evidence)
            .change_and_restart("the command line of a Sidekiq process", format!("-q {name}")),
        Some((served, identity)) => {
            let hint = format!(
                "; {identity} serves \"{served}\", which nobody pushes to: did you mean \"{name}\"?"
            );
            let place = format!("the command line or sidekiq.yml of {identity}");
            let line = format!("-q {name}   (instead of -q {served})");
            finding(evidence + &hint).change_and_restart(place, line)
        }
    }
}

/// A queue that is served and that nobody pushes to, if its name is close; and who serves it.
fn misspelt<'a>(jobs: &'a Jobs, name: &str) -> Option<(&'a str, &'a str)> {
    let never_pushed = |served: &&str| jobs.queue(served).is_none_or(|queue| !queue.pushed);
    let served = jobs.serving().flat_map(|process| process.served());
    let closest = hint::closest(name, served.filter(never_pushed))?;
    let process = jobs.serving_queue(closest).next()?;
    Some((closest, &process.identity))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;
    use crate::observation::WeightedQueue;

    fn unserved(name: &str) -> Observation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        let queues = &mut jobs.processes[0].capsules[0].queues;
        queues.retain(|queue| queue.name != name);
        jobs.queue_mut(name).length = 1_234;
        jobs.queue_mut(name).latency = Duration::from_secs(3_660);
        observation
    }

    fn serve(observation: &mut Observation, name: &str) {
        let queue = WeightedQueue { name: name.to_owned(), weight: 1 };
        observation.jobs.known_mut().processes[0].capsules[0].queues.push(queue);
    }

    #[test]
    fn a_forgotten_queue_names_the_flag() {
        let finding = check(&unserved("fasp")).remove(0);
        assert_eq!(
            finding.evidence,
            "1,234 jobs wait, the oldest for 1 h 1 min, and no process serves it"
        );
        assert_eq!(finding.change.unwrap().line, "-q fasp");
    }

    #[test]
    fn a_misspelt_one_says_what_was_meant_and_by_whom() {
        let mut observation = unserved("mailers");
        serve(&mut observation, "mailer");
        let finding = check(&observation).remove(0);
        assert!(
            finding
                .evidence
                .contains("serves \"mailer\", which nobody pushes to: did you mean \"mailers\"?")
        );
        assert_eq!(finding.change.unwrap().line, "-q mailers   (instead of -q mailer)");
    }

    #[test]
    fn a_close_name_that_jobs_are_pushed_to_is_no_misspelling() {
        let mut observation = unserved("pull");
        assert!(check(&observation)[0].change.as_ref().unwrap().line == "-q pull");
        // "push" is two letters away and real.
        serve(&mut observation, "pulls");
        assert!(check(&observation)[0].evidence.contains("\"pulls\""));
    }

    #[test]
    fn who_was_not_looked_at_may_serve_it() {
        let mut observation = unserved("fasp");
        observation.jobs.known_mut().has_more_processes = true;
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn paused_and_empty_queues_are_nobodys_mistake() {
        let mut observation = unserved("fasp");
        observation.jobs.known_mut().queue_mut("fasp").paused = true;
        assert_eq!(check(&observation), []);
        let mut observation = unserved("fasp");
        observation.jobs.known_mut().queue_mut("fasp").length = 0;
        assert_eq!(check(&observation), []);
    }
}
