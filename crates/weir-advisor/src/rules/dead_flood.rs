//! The dead set is full, or fills: what falls out of it is gone.

use crate::finding::{Finding, Severity};
use crate::flow::Drain;
use crate::observation::{JobSet, Observation};
use crate::wording;

use super::retry_flood::most_common;

pub(crate) const NAME: &str = "dead-flood";

/// Sidekiq's `dead_max_jobs`, as it ships.
const CAPACITY: u64 = 10_000;
/// Of the capacity.
const NEARLY_FULL: u64 = CAPACITY / 10 * 9;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let Some(jobs) = observation.jobs.known() else { return Vec::new() };
    let set = &jobs.dead;
    let grows = set.flow.known().is_some_and(|flow| flow.drain() == Drain::Grows);
    if set.size >= NEARLY_FULL || grows { vec![found(set, grows)] } else { Vec::new() }
}

fn found(set: &JobSet, grows: bool) -> Finding {
    let growth = if grows { ", more each second" } else { "" };
    let sample = set.sample.known().and_then(most_common).unwrap_or_default();
    let evidence = format!(
        "{} jobs are dead{growth}, {} fit{sample}",
        wording::count(set.size),
        wording::count(CAPACITY)
    );
    let severity = if set.size >= NEARLY_FULL { Severity::Warning } else { Severity::Notice };
    Finding::new(NAME, severity, "the dead set", evidence)
        .leads_to("When it is full, each new one drops the oldest for good.")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::flow::Flow;
    use crate::healthy;
    use crate::observation::Fact;

    #[test]
    fn a_full_set_warns_and_one_that_fills_is_noticed() {
        for (before, after, expected) in [
            (8_999, 8_999, None),
            (9_000, 9_000, Some(Severity::Warning)),
            (100, 400, Some(Severity::Notice)),
            (400, 400, None),
        ] {
            let mut observation = healthy::observation();
            let set = &mut observation.jobs.known_mut().dead;
            set.size = after;
            let window = Duration::from_secs(10);
            set.flow = Fact::Known(Flow { window, before, after, ..Flow::default() });
            let severity = check(&observation).first().map(|finding| finding.severity);
            assert_eq!(severity, expected, "{before} {after}");
        }
    }
}
