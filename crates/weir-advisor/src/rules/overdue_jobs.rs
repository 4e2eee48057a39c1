//! Jobs are due, but no process moves them to their queue.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{JobSet, Observation, SidekiqObservation};
use crate::wording;

pub(crate) const NAME: &str = "overdue-jobs";

/// Sidekiq's processes poll every 15 s on average, at random intervals. Four missed polls are not
/// due to chance.
const OVERDUE_MIN: Duration = Duration::from_secs(60);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    [("the scheduled set", &jobs.scheduled), ("the retry set", &jobs.retries)]
        .into_iter()
        .filter(|(_, set)| set.overdue > 0 && set.overdue_by >= OVERDUE_MIN)
        .map(|(name, set)| found(name, set, jobs))
        .collect()
}

fn found(name: &str, set: &JobSet, jobs: &SidekiqObservation) -> Finding {
    let (overdue, are) =
        (wording::count(set.overdue), if set.overdue == 1 { "job is" } else { "jobs are" });
    let evidence =
        format!("{overdue} {are} due, the first for {}", wording::duration(set.overdue_by));
    let finding = |severity| Finding::new(NAME, severity, name, evidence);
    if set.overdue_moves {
        return finding(Severity::Warning).leads_to(moving(set));
    }
    let Some(process) = jobs.serving().next() else {
        return finding(Severity::Critical).leads_to(
            "Running processes that are not quiet move them to their queues, and there \
                       is none.",
        );
    };
    if jobs.serving().all(|it| it.running_for.is_some_and(|age| age < OVERDUE_MIN)) {
        return finding(Severity::Warning).leads_to(
            "Processes move them to their queues, beginning within a minute of their \
                       start.",
        );
    }
    if let Some(behind) = clock_behind(jobs).filter(|it| set.overdue_by < *it + OVERDUE_MIN) {
        return finding(Severity::Warning).leads_to(format!(
            "The clocks of the processes that move them to their queues are {} or more behind that \
             of Redis, so the jobs are not due for them yet. Correct the clocks.",
            wording::duration(behind)
        ));
    }
    let stuck = finding(Severity::Critical).leads_to(
        "Processes move them to their queues, but their pollers are stuck: after the signal, \
         Sidekiq's log shows what the threads do.",
    );
    Finding { next: process.print_threads_command(), ..stuck }
}

/// Returns how far every serving process' clock is behind that of Redis, at least. Pollers compare the
/// time of a job with their own clock.
fn clock_behind(jobs: &SidekiqObservation) -> Option<Duration> {
    let behind = jobs.serving().map(|process| -process.clock_ahead_seconds);
    let seconds = behind.reduce(f64::min)?.round();
    Duration::try_from_secs_f64(seconds).ok().filter(|behind| !behind.is_zero())
}

/// Formats the progress. After an outage, many jobs become due at once, and moving them takes time.
fn moving(set: &JobSet) -> String {
    let left = Duration::try_from_secs_f64(set.overdue as f64 / set.overdue_fewer_per_second);
    match left {
        Ok(left) => {
            let (rate, left) =
                (wording::rate(set.overdue_fewer_per_second), wording::duration(left));
            format!(
                "Processes move them to their queues at {rate}: the last one will be there in \
                     {left}."
            )
        }
        Err(_) => "Processes move them to their queues, but as many become due: new ones are \
                   equally late."
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn a_minute_past_is_too_long() {
        for (seconds, overdue, findings) in [(59, 5, 0), (60, 5, 1), (600, 0, 0)] {
            let mut observation = healthy::observation();
            let set = &mut observation.jobs.known_mut().retries;
            (set.overdue, set.overdue_by) = (overdue, Duration::from_secs(seconds));
            assert_eq!(check(&observation).len(), findings, "{seconds} {overdue}");
        }
    }

    fn overdue() -> Observation {
        let mut observation = healthy::observation();
        let jobs = observation.jobs.known_mut();
        (jobs.scheduled.overdue, jobs.scheduled.overdue_by) = (40_000, Duration::from_secs(3_600));
        for process in &mut jobs.processes {
            process.running_for = Some(Duration::from_secs(7_200));
        }
        observation
    }

    #[test]
    fn what_is_moved_after_an_outage_is_not_stuck() {
        let mut observation = overdue();
        let stuck = check(&observation).remove(0);
        assert_eq!(stuck.severity, Severity::Critical);
        assert!(stuck.next.is_some(), "{stuck:?}");
        let set = &mut observation.jobs.known_mut().scheduled;
        (set.overdue_moves, set.overdue_fewer_per_second) = (true, 500.0);
        let moves = check(&observation).remove(0);
        assert_eq!((moves.severity, moves.next), (Severity::Warning, None));
        let expected = "Processes move them to their queues at 500/s: the last one will be there in 1 min 20 s.";
        assert_eq!(moves.consequence, expected);
        observation.jobs.known_mut().scheduled.overdue_fewer_per_second = 0.0;
        let as_many = check(&observation).remove(0);
        assert!(as_many.consequence.contains("as many become due"), "{as_many:?}");
    }

    #[test]
    fn pollers_of_processes_that_have_just_begun_are_not_stuck() {
        let mut observation = overdue();
        for process in &mut observation.jobs.known_mut().processes {
            process.running_for = Some(Duration::from_secs(59));
        }
        let young = check(&observation).remove(0);
        assert_eq!((young.severity, young.next), (Severity::Warning, None));
        observation.jobs.known_mut().processes[0].running_for = Some(Duration::from_secs(60));
        assert_eq!(check(&observation)[0].severity, Severity::Critical);
    }

    #[test]
    fn pollers_whose_clocks_are_behind_are_not_stuck() {
        let mut observation = overdue();
        let behind = |observation: &mut Observation, seconds: f64| {
            for process in &mut observation.jobs.known_mut().processes {
                process.clock_ahead_seconds = -seconds;
            }
        };
        behind(&mut observation, 10_800.0);
        let late = check(&observation).remove(0);
        assert_eq!((late.severity, late.next), (Severity::Warning, None));
        assert!(late.consequence.contains("are 3 h or more behind"), "{}", late.consequence);
        behind(&mut observation, 60.0);
        assert_eq!(check(&observation)[0].severity, Severity::Critical, "overdue for an hour");
        behind(&mut observation, 10_800.0);
        observation.jobs.known_mut().processes[0].clock_ahead_seconds = 0.0;
        assert_eq!(check(&observation)[0].severity, Severity::Critical, "one clock is right");
    }
}
