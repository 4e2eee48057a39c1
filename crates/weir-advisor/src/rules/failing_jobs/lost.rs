//! Jobs that failed and are in neither set: they are not retried. A class with `retry: false` leaves no
//! other trace than the counter of failures.

use std::time::Duration;

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{JobSample, SidekiqObservation};
use crate::wording::{self, percent};

/// Fewer jobs, or a smaller share of all, may be meant to fail at times.
const LOST_MIN: f64 = 10.0;
const SHARE_MIN: f64 = 0.05;
/// A failed job stays in the retry set for 15 s at least. In a longer window it may have been in the set
/// in neither sample.
const WINDOW_MAX: Duration = Duration::from_secs(16);
/// Sidekiq keeps that many dead jobs, and removes one for each that dies.
const DEAD_MAX: u64 = 10_000;
/// Classes that are named.
const NAMED_MAX: usize = 3;

/// Reports failed jobs that were not put into the retry set or the dead set.
pub(super) fn found(rule: &'static str, jobs: &SidekiqObservation) -> Option<Finding> {
    let retries = jobs.retries.flow.known()?;
    let dead = jobs.dead.flow.known()?;
    let window = retries.window;
    if window > WINDOW_MAX || dead.after >= DEAD_MAX {
        return None;
    }
    let finished = jobs.processed_per_second.known()? * window.as_secs_f64();
    let failed = finished * jobs.failed_share.known()?;
    // A job that failed in the window was in the set in one of the samples. Jobs that failed before are
    // there as well, so this is a lower limit.
    let kept = retries.before.saturating_add(retries.after);
    let died = dead.after.saturating_sub(dead.before);
    let lost = failed - kept as f64 - died as f64;
    if lost < LOST_MIN || lost < SHARE_MIN * finished {
        return None;
    }
    let evidence = format!(
        "{} of the jobs of the last {} failed, and {} of all are in no set: {} in the retry set, {} more in the dead set",
        percent(failed / finished),
        wording::duration(window),
        at_least(lost / finished),
        wording::number(jobs.retries.size, "is", "are"),
        wording::count(died),
    );
    let finding = Finding::new(rule, Severity::Warning, "Sidekiq", evidence)
        .with_confidence(Confidence::Likely)
        .leads_to(format!(
            "They are not retried: their class has retry: false (or sidekiq_retries_exhausted and the \
             application discard them), so nothing else counts them{}.",
            suspects(jobs)
        ));
    Some(finding.advise(
        "look for the failed jobs in Sidekiq's log (fail), which has their class and the error; then \
         repair the cause, or give the class retries (sidekiq_options retry: 5) if it may run twice",
    ))
}

/// Formats a lower limit: "at least 21 %".
fn at_least(share: f64) -> String {
    format!("at least {}", percent(share))
}

/// Names the classes with failures that the retry set does not have, where Sidekiq counts runs by class.
fn suspects(jobs: &SidekiqObservation) -> String {
    let Some(classes) = jobs.classes.known() else { return String::new() };
    let sample: Option<&JobSample> = jobs.retries.sample.known().filter(|_| jobs.retries.size > 0);
    let is_kept = |class: &str| {
        sample.is_some_and(|sample| sample.failing.iter().any(|it| it.class == class))
    };
    let failing = classes.recent.iter().filter(|(class, runs)| runs.failed > 0 && !is_kept(class));
    let mut failing: Vec<_> = failing.map(|(class, runs)| (runs.failed, class.as_str())).collect();
    failing.sort_unstable_by(|one, other| other.cmp(one));
    let names = failing.into_iter().take(NAMED_MAX).map(|(_, class)| class);
    let names: Vec<&str> = names.filter(|it| !it.is_empty()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(
        ". Of the classes with failures, these are not in the retry set: {}",
        wording::list(names)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use crate::healthy;
    use crate::observation::{Fact, JobSet};

    fn set(before: u64, after: u64, seconds: u64) -> JobSet {
        let window = Duration::from_secs(seconds);
        let flow = Flow { window, before, after, arrivals_per_second: 0.0, deviation: None };
        JobSet { size: after, flow: Fact::Known(flow), ..JobSet::default() }
    }

    /// Returns what is found if 120 jobs ended in ten seconds.
    fn with(failed: f64, retries: JobSet, dead: JobSet) -> Option<Finding> {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        (jobs.retries, jobs.dead) = (retries, dead);
        jobs.processed_per_second = Fact::Known(12.0);
        jobs.failed_share = Fact::Known(failed / 120.0);
        super::super::check(&observation).pop()
    }

    #[test]
    fn failures_that_no_set_has_are_found() {
        let finding = with(36.0, set(2, 3, 10), set(7, 8, 10)).unwrap();
        let expected = "30 % of the jobs of the last 10 s failed, and at least 25 % of all are in no \
                        set: 3 are in the retry set, 1 more in the dead set";
        assert_eq!(finding.evidence, expected);
        assert_eq!((finding.severity, finding.confidence), (Severity::Warning, Confidence::Likely));
        assert!(finding.consequence.contains("not in the retry set: Delivery"), "{finding:?}");
        assert!(finding.next_step().unwrap().contains("Sidekiq's log"));
    }

    #[test]
    fn failures_that_may_be_in_a_set_are_no_finding() {
        assert_eq!(with(36.0, set(0, 36, 10), set(7, 7, 10)), None, "they are retried");
        assert_eq!(with(36.0, set(36, 0, 10), set(7, 7, 10)), None, "they were taken again");
        assert_eq!(with(36.0, set(0, 2, 10), set(0, 30, 10)), None, "they are dead");
        assert_eq!(with(36.0, set(0, 0, 10), set(10_000, 10_000, 10)), None, "this is unknown");
        assert_eq!(with(9.0, set(0, 0, 10), set(7, 7, 10)), None, "a few");
        assert_eq!(with(36.0, set(0, 0, 60), set(7, 7, 60)), None, "a long window");
    }
}
