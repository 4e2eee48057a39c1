//! The clock of a host differs from Redis' clock, so the times that its processes write are wrong.

use std::collections::BTreeMap;
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
    hosts.into_values().map(found).collect()
}

fn found(process: &JobProcess) -> Finding {
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
    Finding { next: process.there("timedatectl"), ..finding }
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
        assert_eq!(findings[0].next.as_deref(), Some("timedatectl"));
        for process in &mut observation.jobs.known_mut().processes {
            process.clock_ahead_seconds = 29.0;
        }
        assert_eq!(check(&observation), []);
    }
}
