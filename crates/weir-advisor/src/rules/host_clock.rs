//! The clock of a host differs from Redis' clock, so the times that its processes write are wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{JobProcess, Observation};
use crate::wording;

pub(crate) const NAME: &str = "host-clock";

/// Smaller differences matter less than the polling interval of Sidekiq's scheduler.
const DIFFERENCE_MIN_SECONDS: f64 = 30.0;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let mut hosts: BTreeMap<&str, &JobProcess> = BTreeMap::new();
    let differ = |it: &&JobProcess| it.clock_ahead_seconds.abs() >= DIFFERENCE_MIN_SECONDS;
    for process in jobs.processes.iter().filter(differ) {
        hosts.entry(&process.hostname).or_insert(process);
    }
    let is_redis = all_differ_alike(&jobs.processes);
    hosts.into_values().map(|process| found(process, is_redis)).collect()
}

/// Reports whether several hosts differ from Redis by the same time. Then its clock is most likely the wrong
/// one.
fn all_differ_alike(processes: &[JobProcess]) -> bool {
    let hosts: BTreeSet<&str> = processes.iter().map(|it| it.hostname.as_str()).collect();
    let ahead = || processes.iter().map(|it| it.clock_ahead_seconds);
    let spread = ahead().fold(f64::MIN, f64::max) - ahead().fold(f64::MAX, f64::min);
    hosts.len() > 1 && spread < DIFFERENCE_MIN_SECONDS
}

fn found(process: &JobProcess, is_redis: bool) -> Finding {
    let seconds = process.clock_ahead_seconds;
    let difference = Duration::try_from_secs_f64(seconds.abs().round()).unwrap_or(Duration::MAX);
    let (direction, off) = if seconds > 0.0 { ("ahead of", "early") } else { ("behind", "late") };
    let difference = wording::duration(difference);
    let evidence = format!("the clock of its host is {difference} {direction} that of Redis");
    let subject = format!("process {}", process.identity);
    let finding = Finding::new(NAME, Severity::Warning, subject, evidence).leads_to(format!(
        "Scheduled jobs may run {difference} {off}. Jobs that it pushes have wrong times: their \
         latency is wrong by the same amount, here and in Sidekiq's pages."
    ));
    if is_redis {
        return finding.adding(
            "All hosts differ by about the same time: look at the clock of Redis' machine first.",
        );
    }
    finding.next_if(process.there("timedatectl"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn a_clock_that_differs_is_named_once_for_each_host() {
        let mut observation = healthy::observation();
        for process in &mut observation.jobs.known_mut().processes {
            process.clock_ahead_seconds = -7_200.0;
        }
        let findings = check(&observation);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].subject, "process shop:1:0123456789ab");
        assert_eq!(findings[0].evidence, "the clock of its host is 2 h behind that of Redis");
        assert_eq!(findings[0].next_step(), Some("timedatectl"));
        for process in &mut observation.jobs.known_mut().processes {
            process.clock_ahead_seconds = 29.0;
        }
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn hosts_that_all_differ_by_the_same_time_show_that_the_clock_of_redis_is_wrong() {
        let mut observation = healthy::observation();
        let processes = &mut observation.jobs.known_mut().processes;
        "web".clone_into(&mut processes[1].hostname);
        for (process, ahead) in processes.iter_mut().zip([3_600.0, 3_605.0]) {
            process.clock_ahead_seconds = ahead;
        }
        let findings = check(&observation);
        assert_eq!(findings.len(), 2);
        assert!(findings.iter().all(|it| it.next_step().is_none()));
        assert!(findings[0].consequence.ends_with("look at the clock of Redis' machine first."));
        observation.jobs.known_mut().processes[1].clock_ahead_seconds = 0.0;
        assert_eq!(check(&observation)[0].next_step(), Some("timedatectl"));
    }
}
