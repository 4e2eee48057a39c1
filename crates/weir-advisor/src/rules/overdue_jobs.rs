//! Jobs whose time has come and that nobody moves into their queue.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{JobSet, Observation};
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
        .map(|(name, set)| found(name, set))
        .collect()
}

fn found(name: &str, set: &JobSet) -> Finding {
    let overdue = wording::count(set.overdue);
    let evidence =
        format!("{overdue} jobs are due, the first since {}", wording::duration(set.overdue_by));
    Finding::new(NAME, Severity::Critical, name, evidence)
        .leads_to("They are moved by processes that are running and not quiet: either there is none, or their pollers are stuck.")
        .next("kill -TTIN PID   (Sidekiq then writes what its threads do to its log)")
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
