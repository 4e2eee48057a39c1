//! All jobs of one class fail, while most other jobs do not.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{
    DayCounts, FailingClass, JobSample, Observation, RunCounts, SidekiqObservation,
};
use crate::shell;
use crate::wording::{self, percent};

pub(crate) const NAME: &str = "failing-class";

/// Fewer runs may fail together by chance.
const RUNS_MIN: u64 = 10;
/// A job that is retried may succeed once in a while.
const FAILED_SHARE_MIN: f64 = 0.95;
/// Failed jobs of a class in the sample, with the same error, where runs are not counted by class.
const SAMPLED_MIN: u64 = 20;
/// How far the failures of today must be above the usual ones, where runs are not counted by class.
const ABOVE_USUAL: f64 = 3.0;
/// Failures of today beyond the usual ones, at least.
const MORE_FAILURES_MIN: f64 = 50.0;
/// A class whose last failure is older has recovered, or is not run any more.
const RECENT: Duration = Duration::from_secs(1_800);
/// Classes that are named.
const NAMED_MAX: usize = 3;
/// Jobs that one step of the suggested search reads at most.
const SEARCHED_MAX: u32 = 10_000;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    // The rule `failing-jobs` reports that most fail.
    if jobs.most_fail() {
        return Vec::new();
    }
    let findings: Vec<Finding> = match jobs.classes.known() {
        Some(classes) => {
            let fails = |(_, runs): &(&String, &RunCounts)| always_fails(runs);
            let failing = classes.recent.iter().filter(fails);
            failing.map(|(class, runs)| counted(jobs, class, *runs)).collect()
        }
        None => sampled(jobs).into_iter().collect(),
    };
    findings.into_iter().take(NAMED_MAX).map(|it| with_command(observation, it)).collect()
}

fn always_fails(runs: &RunCounts) -> bool {
    runs.processed >= RUNS_MIN && runs.failed as f64 >= FAILED_SHARE_MIN * runs.processed as f64
}

/// Reports a class whose runs Sidekiq has counted.
fn counted(jobs: &SidekiqObservation, class: &str, runs: RunCounts) -> Finding {
    let classes = jobs.classes.known();
    let period = classes.map(|it| it.period).unwrap_or_default();
    let before = classes.and_then(|it| it.earlier.get(class)).filter(|it| it.processed > 0);
    let before = before.map(|it| {
        format!(
            "; an hour before, {} of {}",
            wording::count(it.failed),
            wording::count(it.processed)
        )
    });
    let error = failing(jobs).iter().find(|it| it.class == class);
    let error = error.map(|it| format!("; {}", words(jobs, it))).unwrap_or_default();
    let evidence = format!(
        "{} of {} in the last {} failed{}{error}",
        wording::count(runs.failed),
        wording::number(runs.processed, "run", "runs"),
        wording::duration(period),
        before.unwrap_or_default()
    );
    found(class, evidence)
}

/// Reports the class with the most failed jobs, if more jobs fail than usual and those of the class
/// have one error.
fn sampled(jobs: &SidekiqObservation) -> Option<Finding> {
    let worst = failing(jobs).iter().max_by_key(|it| it.count)?;
    let is_of_class = |it: &&FailingClass| it.class == worst.class;
    let all: u64 = failing(jobs).iter().filter(is_of_class).map(|it| it.count).sum();
    let has_one_error = worst.count as f64 >= FAILED_SHARE_MIN * all as f64;
    if worst.count < SAMPLED_MIN || !has_one_error || worst.last_before > RECENT {
        return None;
    }
    let (share, usual) = above_usual(jobs.days.known()?)?;
    let evidence = format!(
        "{}; {} of all jobs failed today, {} on the days before",
        words(jobs, worst),
        small_percent(share),
        small_percent(usual)
    );
    Some(found(&worst.class, evidence))
}

/// Returns today's share of failures and the usual one, if today's is far above it.
pub(super) fn above_usual(days: &[DayCounts]) -> Option<(f64, f64)> {
    let (today, before) = days.split_first()?;
    let (processed, failed) = before.iter().fold((0, 0), |(processed, failed), day| {
        (day.processed.saturating_add(processed), day.failed.saturating_add(failed))
    });
    let usual = (processed > 0).then(|| (failed as f64 / processed as f64).min(1.0))?;
    let share = today.failed_share()?;
    let more = today.failed as f64 - usual * today.processed as f64;
    (share >= ABOVE_USUAL * usual && more >= MORE_FAILURES_MIN).then_some((share, usual))
}

/// Formats a share with a digit more where it is small: "0.3 %".
pub(super) fn small_percent(share: f64) -> String {
    if share > 0.0 && share < 0.1 { format!("{:.1} %", share * 100.0) } else { percent(share) }
}

fn failing(jobs: &SidekiqObservation) -> &[FailingClass] {
    let sample = jobs.retries.sample.known().filter(|_| jobs.retries.size > 0);
    sample.map(|sample| sample.failing.as_slice()).unwrap_or_default()
}

/// Describes failed jobs of the retry set: "40 of 100 sampled jobs of the retry set are of it, with
/// IOError (for example: closed stream), the first failed 2 h ago".
fn words(jobs: &SidekiqObservation, failing: &FailingClass) -> String {
    let sample: Option<&JobSample> = jobs.retries.sample.known();
    let message = sample.and_then(|sample| sample.error_messages.get(&failing.error));
    let message = message.map(|it| format!(" (for example: {it})")).unwrap_or_default();
    format!(
        "{} of {} of the retry set are of it, with {}{message}, the first failed {} ago",
        wording::count(failing.count),
        wording::number(sample.map_or(0, |it| it.size), "sampled job", "sampled jobs"),
        failing.error,
        wording::duration(failing.first_before)
    )
}

fn found(class: &str, evidence: String) -> Finding {
    let class = if class.is_empty() { "an unknown class" } else { class };
    Finding::new(NAME, Severity::Warning, format!("jobs of {class}"), evidence).leads_to(
        "Something that only this class uses has most likely changed: its code, its arguments, or a \
         service that it calls. Its jobs run again as retries, and are dead or lost after the last one. \
         The command shows some of them, with the message of their error and, if the application keeps \
         it, the line that raised it.",
    )
}

/// Adds the command that shows failed jobs of the class.
fn with_command(observation: &Observation, finding: Finding) -> Finding {
    let class = finding.subject.strip_prefix("jobs of ").unwrap_or_default();
    let server = observation.redis.first().and_then(|redis| redis.known());
    // The name of a class has no special characters of a pattern.
    let is_plain = |class: &str| class.chars().all(|it| it.is_alphanumeric() || ":_".contains(it));
    let Some(server) = server.filter(|_| is_plain(class)) else { return finding };
    let pattern = shell::word(&format!("*\"{class}\"*"));
    let command = observation.redis_command(&server.name, |cli| {
        format!("{cli} ZSCAN retry 0 MATCH {pattern} COUNT {SEARCHED_MAX}")
    });
    finding.next(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy::{self, runs};
    use crate::observation::Fact;

    fn failing_class(class: &str, error: &str, count: u64) -> FailingClass {
        FailingClass {
            class: class.to_owned(),
            error: error.to_owned(),
            count,
            first_before: Duration::from_secs(7_200),
            last_before: Duration::from_secs(60),
        }
    }

    fn with_sample(failing: Vec<FailingClass>) -> Observation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        let error_messages = [("IOError".to_owned(), "closed stream".to_owned())].into();
        jobs.retries.size = 100;
        jobs.retries.sample =
            Fact::Known(JobSample { size: 100, error_messages, failing, ..JobSample::default() });
        observation
    }

    #[test]
    fn a_class_that_always_fails_is_told_from_one_that_fails_sometimes() {
        for (processed, failed, findings) in [(42, 42, 1), (42, 39, 0), (9, 9, 0), (1_000, 20, 0)] {
            let mut observation = with_sample(vec![failing_class("Invoice", "IOError", 40)]);
            let classes = observation.jobs.known_mut().classes.known_mut();
            classes.recent.insert("Invoice".to_owned(), runs(processed, failed));
            classes.earlier.insert("Invoice".to_owned(), runs(900, 1));
            let found = check(&observation);
            assert_eq!(found.len(), findings, "{processed} {failed}");
            for finding in found {
                let expected = "42 of 42 runs in the last 10 min failed; an hour before, 1 of 900; 40 of \
                                100 sampled jobs of the retry set are of it, with IOError (for example: \
                                closed stream), the first failed 2 h ago";
                assert_eq!(
                    (finding.subject.as_str(), finding.evidence.as_str()),
                    ("jobs of Invoice", expected)
                );
                let command = finding.next_step().unwrap();
                assert!(
                    command.ends_with("ZSCAN retry 0 MATCH '*\"Invoice\"*' COUNT 10000"),
                    "{command}"
                );
            }
        }
    }

    #[test]
    fn where_runs_are_not_counted_by_class_more_failures_than_usual_show_it() {
        let check = |failed, failing: Vec<FailingClass>| {
            let mut observation = with_sample(failing);
            let jobs = observation.jobs.known_mut();
            jobs.classes = Fact::NotAsked;
            jobs.days.known_mut()[0].failed = failed;
            check(&observation)
        };
        let one = || vec![failing_class("Invoice", "IOError", 20)];
        let finding = check(600, one()).remove(0);
        let expected = "20 of 100 sampled jobs of the retry set are of it, with IOError (for example: closed \
                        stream), the first failed 2 h ago; 5.0 % of all jobs failed today, 0.1 % on the \
                        days before";
        assert_eq!(finding.evidence, expected);
        assert_eq!(check(60, one()), [], "as many as usual, but for 48");
        assert_eq!(check(600, vec![failing_class("Invoice", "IOError", 19)]), []);
        let two =
            [failing_class("Invoice", "IOError", 20), failing_class("Invoice", "EOFError", 9)];
        assert_eq!(check(600, two.to_vec()), [], "various errors");
    }

    #[test]
    fn a_class_that_has_recovered_is_no_finding() {
        let mut old = failing_class("Invoice", "IOError", 50);
        old.last_before = Duration::from_secs(3_600);
        let mut observation = with_sample(vec![old]);
        let jobs = observation.jobs.known_mut();
        jobs.classes = Fact::NotAsked;
        jobs.days.known_mut()[0].failed = 600;
        assert_eq!(check(&observation), []);
    }
}
