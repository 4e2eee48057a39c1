//! Jobs wait in a queue that no process serves, because its name is misspelt or missing in a
//! configuration.

use crate::finding::{Finding, Severity};
use crate::observation::{Observation, ObservedQueue, SidekiqObservation};
use crate::queue_line::Repaired;
use crate::rules::{absent_server, waiting_jobs};
use crate::wording;

pub(crate) const NAME: &str = "unserved-queue";

const NEVER: &str = "Its jobs are not run until a process serves it.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    // Without any process all queues are unserved, which another rule reports once.
    if jobs.serving().next().is_none() {
        return Vec::new();
    }
    let unserved = |queue: &&ObservedQueue| {
        queue.length > 0 && !queue.paused && jobs.nobody_serves(&queue.name)
    };
    let repaired = Repaired::of(observation);
    let found = |queue: &ObservedQueue| {
        found(jobs, &repaired, queue).since(queue.latency, waiting_jobs::OLDEST_JOB)
    };
    jobs.queues.iter().filter(unserved).map(found).collect()
}

/// Reports a queue from which jobs were taken between the samples: something without a heartbeat serves
/// it, so that no other process must.
fn taken_nevertheless(queue: &ObservedQueue, subject: &str, waiting: &str) -> Option<Finding> {
    let flow = queue.flow.known()?;
    let taken = flow.before.saturating_sub(flow.after);
    (taken > 0).then(|| {
        let evidence = format!(
            "{waiting}, and no process with a heartbeat serves it, but it has {} fewer than {} before",
            wording::number(taken, "job", "jobs"),
            wording::duration(flow.window)
        );
        Finding::new(NAME, Severity::Notice, subject, evidence).leads_to(
            "Something takes them: a program other than Sidekiq, a process that has just started or \
             ended, or a person who deletes them.",
        )
    })
}

fn found(jobs: &SidekiqObservation, repaired: &Repaired<'_>, queue: &ObservedQueue) -> Finding {
    let name = &queue.name;
    let waiting = wording::jobs_wait_since(queue.length, queue.latency);
    let subject = format!("queue {name}");
    if let Some(finding) = absent_server::found(NAME, &subject, &waiting, jobs, name) {
        return finding;
    }
    let hint = repaired.misspelt(name).map(|(identity, served)| {
        format!(
            "; {identity} serves \"{served}\", to which nothing pushes: did you mean \"{name}\"?"
        )
    });
    let evidence = format!("{waiting}, and no process serves it{}", hint.unwrap_or_default());
    if let Some(finding) = taken_nevertheless(queue, &subject, &waiting) {
        return finding;
    }
    let consequence = match queue.unlisted {
        false => NEVER,
        true => {
            "Its jobs are not run until a process serves it. The client that pushes them does not add the name to the set \
             queues, as Sidekiq's own client does, so Sidekiq's pages do not list the queue."
        }
    };
    let finding = Finding::new(NAME, Severity::Critical, subject, evidence).leads_to(consequence);
    match jobs.unlisted.first() {
        Some(pid) => may_be_of(finding, *pid),
        None => repaired.change(finding, name),
    }
}

/// Reports a Sidekiq of this machine without a heartbeat, which may be the one that serves the queue.
fn may_be_of(finding: Finding, pid: u32) -> Finding {
    let evidence = format!(
        "{}; process {pid} of this machine, a Sidekiq with a connection to this Redis, is not in the \
         list of processes",
        finding.evidence
    );
    let consequence = format!(
        "{} No list of queues is suggested, because that process may serve it: it hangs, which its \
         log shows, or cannot write to Redis, or uses another database of it. Restart it if it hangs; its \
         jobs in progress are then lost, unless its fetcher keeps them.",
        finding.consequence
    );
    Finding { evidence, ..finding }.leads_to(consequence)
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
    fn blocked_jobs_are_served_with_their_queue() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        let blocked = jobs.queue_mut("fasp").clone();
        jobs.queues.push(ObservedQueue {
            name: "fasp.blocked.payments".to_owned(),
            length: 50,
            ..blocked
        });
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn a_forgotten_queue_names_the_flag() {
        let finding = check(&unserved("fasp")).remove(0);
        assert_eq!(
            finding.evidence,
            "1,234 jobs wait, the oldest for 1 h 1 min, and no process serves it"
        );
        let since = finding.since.clone().unwrap();
        assert_eq!((since.seconds_ago, &*since.source), (3_660, waiting_jobs::OLDEST_JOB));
        let change = finding.line_change().cloned().unwrap();
        let all = "-q default,8 -q push,6 -q ingress,4 -q mailers,2 -q pull,1 -q fasp,1";
        assert_eq!(change.line, all, "one alone would strand the others");
        assert!(change.place.starts_with("all queues of shop:1:"), "{}", change.place);
        assert_eq!(finding.consequence, NEVER);
        let mut observation = unserved("fasp");
        observation.jobs.known_mut().queue_mut("fasp").unlisted = true;
        let unlisted = check(&observation).remove(0);
        assert!(unlisted.consequence.contains("pages do not list the queue"), "{unlisted:?}");
    }

    #[test]
    fn a_queue_that_may_be_of_a_process_without_heartbeats_is_given_to_no_other() {
        let mut observation = unserved("fasp");
        observation.jobs.known_mut().unlisted = vec![4_711];
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.line_change()), (Severity::Critical, None));
        assert!(finding.evidence.contains("process 4711 of this machine"), "{}", finding.evidence);
        assert!(finding.consequence.contains("Restart it if it hangs"), "{}", finding.consequence);
    }

    #[test]
    fn a_misspelt_one_says_what_was_meant_and_by_whom() {
        let mut observation = unserved("mailers");
        serve(&mut observation, "mailer");
        let finding = check(&observation).remove(0);
        assert!(
            finding
                .evidence
                .contains("serves \"mailer\", to which nothing pushes: did you mean \"mailers\"?")
        );
        let all =
            "-q default,8 -q push,6 -q ingress,4 -q pull,1 -q fasp,1 -q mailers,1 -q mailer,1";
        assert_eq!(finding.line_change().unwrap().line, all);
    }

    #[test]
    fn a_close_name_that_jobs_are_pushed_to_is_no_misspelling() {
        let mut observation = unserved("pull");
        assert!(
            check(&observation)[0].line_change().unwrap().line.ends_with(" -q fasp,1 -q pull,1")
        );
        // "push" differs by two letters and has jobs.
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

    #[test]
    fn a_queue_that_becomes_shorter_is_served_by_something() {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        jobs.processes[0].capsules[0].queues.retain(|it| it.name != "push");
        assert_eq!(check(&observation)[0].severity, Severity::Critical);
        let flow = observation.jobs.known_mut().queue_mut("push").flow.known_mut();
        (flow.before, flow.after) = (5, 3);
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.line_change()), (Severity::Notice, None));
        assert!(finding.evidence.ends_with("2 jobs fewer than 10 s before"), "{finding:?}");
    }
}
