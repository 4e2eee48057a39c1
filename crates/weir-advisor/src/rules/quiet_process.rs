//! A process is quiet for much longer than a deployment takes.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{JobProcess, Observation};
use crate::wording;

pub(crate) const NAME: &str = "quiet-process";

/// Longest expected deployment. Sidekiq's guide recommends to quiet processes early and to stop
/// them late, so they are quiet for some minutes while the application is built and migrated, plus
/// the shutdown timeout (`-t`, 25 s).
const DEPLOYMENT: Duration = Duration::from_secs(600);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let quiet = jobs.processes.iter().filter(|process| process.quiet && process.is_alive());
    quiet.filter_map(found).collect()
}

fn found(process: &JobProcess) -> Option<Finding> {
    let is_long = process.quiet_for >= DEPLOYMENT;
    if !is_long && quiet_at_most(process).is_some_and(|longest| longest < DEPLOYMENT) {
        return None;
    }
    let threads = process.concurrency();
    let busy = match (process.busy, threads) {
        (0, 1) => "its one thread is idle".to_owned(),
        (_, 1) => "its one thread is busy".to_owned(),
        (1, _) => format!("1 of its {threads} threads is busy"),
        (busy, _) => format!("{busy} of its {threads} threads are busy"),
    };
    let threads_serve = wording::number(threads, "thread serves", "threads serve");
    let (severity, since) = if is_long {
        let seen = wording::duration(process.quiet_for);
        (Severity::Warning, format!("for at least {seen}"))
    } else {
        // Heartbeats do not say since when, and a single sample is short.
        (Severity::Notice, "for an unknown time".to_owned())
    };
    let evidence = format!("it takes no new jobs (TSTP), {since}; {busy}");
    let finding = Finding::new(NAME, severity, format!("process {}", process.identity), evidence);
    Some(if is_long {
        let finding =
            finding.since(process.quiet_for, "first of the samples in which it was quiet");
        let finding = finding.leads_to(format!(
            "{threads_serve} nothing until it is restarted, on {}.",
            process.hostname
        ));
        match process.busy {
            0 => finding.next_if(process.signal("TERM")),
            _ => ends_jobs(finding),
        }
    } else {
        finding.leads_to(format!(
            "This is normal during a deployment. Otherwise, {threads_serve} nothing until it is \
             restarted, on {}.",
            process.hostname
        ))
    })
}

/// Suggests no signal while jobs are in progress, which may be why it is quiet.
fn ends_jobs(finding: Finding) -> Finding {
    finding.adding(
        "A restart (TERM) interrupts jobs that do not end within the shutdown timeout (-t, 25 s by \
         default); they run again from the start. If it was quieted to let them end, wait.",
    )
}

/// Returns the longest time that it can have been quiet: it accepted jobs when it took its newest
/// one.
fn quiet_at_most(process: &JobProcess) -> Option<Duration> {
    let newest = process.in_hand.iter().map(|job| job.age).min();
    [newest, process.running_for].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::JobInHand;

    fn quiet(change: impl FnOnce(&mut JobProcess)) -> Option<Finding> {
        let mut observation = healthy::observation();
        let process = &mut observation.jobs.known_mut().processes[0];
        (process.quiet, process.running_for) = (true, Some(Duration::from_secs(90_000)));
        change(process);
        check(&observation).pop()
    }

    fn job(seconds: u64) -> JobInHand {
        JobInHand {
            class: "Import".to_owned(),
            age: Duration::from_secs(seconds),
            ..JobInHand::default()
        }
    }

    #[test]
    fn who_is_quiet_for_longer_than_a_deployment_is_named_with_its_threads() {
        let finding = quiet(|it| it.quiet_for = DEPLOYMENT).unwrap();
        assert_eq!(finding.severity, Severity::Warning);
        let expected =
            "it takes no new jobs (TSTP), for at least 10 min; 1 of its 25 threads is busy";
        assert_eq!(finding.evidence, expected);
        assert!(finding.consequence.starts_with("25 threads"));
        assert_eq!(finding.next_step(), None, "its job would be interrupted");
        assert!(finding.consequence.ends_with("If it was quieted to let them end, wait."));
        let idle = quiet(|it| (it.quiet_for, it.busy) = (DEPLOYMENT, 0)).unwrap();
        assert_eq!(idle.next_step(), Some("kill -TERM 1"));
    }

    #[test]
    fn one_thread_is_one() {
        let finding = quiet(|it| {
            (it.busy, it.quiet_for) = (0, DEPLOYMENT);
            it.capsules[0].concurrency = 1;
        });
        let finding = finding.unwrap();
        assert!(finding.evidence.ends_with("its one thread is idle"), "{finding:?}");
        assert!(finding.consequence.starts_with("1 thread serves nothing "), "{finding:?}");
    }

    #[test]
    fn where_the_time_is_not_known_it_is_worth_knowing_only_and_nobody_is_told_to_kill() {
        let finding = quiet(|it| it.quiet_for = Duration::from_secs(599)).unwrap();
        assert_eq!((finding.severity, finding.next_step()), (Severity::Notice, None));
        assert_eq!(quiet(|it| it.in_hand = vec![job(4_000)]).unwrap().severity, Severity::Notice);
    }

    #[test]
    fn one_that_took_a_job_or_began_within_a_deployments_time_ends_as_it_should() {
        assert_eq!(quiet(|it| it.in_hand = vec![job(4_000), job(590)]), None);
        assert_eq!(quiet(|it| it.running_for = Some(Duration::from_secs(500))), None);
        let seen_longer = quiet(|it| {
            (it.in_hand, it.quiet_for) = (vec![job(590)], DEPLOYMENT);
        });
        assert!(seen_longer.is_some());
    }
}
