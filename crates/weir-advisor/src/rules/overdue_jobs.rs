//! Jobs whose time has come and that nobody moves into their queue.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{JobProcess, JobSet, Observation};
use crate::wording;

pub(crate) const NAME: &str = "overdue-jobs";

/// Sidekiq's processes look every 15 s on average, spread by chance; four turns without one are
/// no chance.
const OVERDUE_MIN: Duration = Duration::from_secs(60);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    [("the scheduled set", &jobs.scheduled), ("the retry set", &jobs.retries)]
        .into_iter()
        .filter(|(_, set)| set.overdue > 0 && set.overdue_by >= OVERDUE_MIN)
        .map(|(name, set)| found(name, set, jobs.serving().next()))
        .collect()
}

fn found(name: &str, set: &JobSet, process: Option<&JobProcess>) -> Finding {
    let overdue = wording::count(set.overdue);
    let evidence =
        format!("{overdue} jobs are due, the first since {}", wording::duration(set.overdue_by));
    let finding = Finding::new(NAME, Severity::Critical, name, evidence);
    match process {
        Some(process) => finding
            .leads_to("Processes move them, and their pollers are stuck: Sidekiq's log has what threads do then.")
            .next(format!("kill -TTIN {}", process.pid)),
        None => finding.leads_to("Processes move them that run and are not quiet, and there is none."),
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
}
