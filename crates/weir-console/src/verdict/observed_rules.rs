//! Doctor's findings about observed systems.

use weir_advisor::{Advice, Severity};

use super::finding::{Finding, Level};
use crate::observed::ObservedSample;
use crate::visible::visible;

/// Left to the rules about jobs, which use current figures: one queue must have one forecast.
const OWN_QUEUE: &str = "own-queue";

/// Returns doctor's findings, with the line to change. Unavailable facts are notices.
pub(super) fn doctor_finds(observed: &ObservedSample) -> Vec<Finding> {
    let Some(snapshot) = &observed.latest else { return Vec::new() };
    of_advice(&snapshot.advice)
}

fn of_advice(advice: &Advice) -> Vec<Finding> {
    advice.findings.iter().filter(|found| found.rule != OWN_QUEUE).map(finding).collect()
}

fn finding(found: &weir_advisor::Finding) -> Finding {
    let level = match found.severity {
        Severity::Critical => Level::Critical,
        Severity::Warning => Level::Warning,
        Severity::Notice | Severity::Unknown => Level::Notice,
    };
    let change =
        found.change.as_ref().map(|change| format!("In {}: {}", change.place, change.line));
    let remedy = change.or_else(|| found.next.clone()).unwrap_or_else(|| found.consequence.clone());
    Finding {
        rule: found.rule,
        level,
        problem: visible(&format!("{}: {}", found.subject, found.evidence)).into_owned(),
        remedy: visible(&remedy).into_owned(),
        link: "/doctor".to_owned(),
        jobs: 0,
    }
}

#[cfg(test)]
mod tests {
    use weir_advisor::advise;
    use weir_advisor::observation::{Fact, Observation, OwnQueue, SidekiqObservation};

    use super::*;

    #[test]
    fn a_queue_of_weir_has_one_forecast() {
        let late = OwnQueue {
            name: "push".to_owned(),
            length: 5_000,
            latency: std::time::Duration::from_secs(120),
            is_paused: false,
            fetchers: 1,
            arrivals_per_second: 10.0,
            served_per_second: 1.0,
        };
        let ghosts = vec!["web:7:0123456789ab".to_owned()];
        let jobs = Fact::Known(SidekiqObservation { ghosts, ..SidekiqObservation::default() });
        let own_queues = Fact::Known(vec![late]);
        let advice = advise(&Observation { own_queues, jobs, ..Observation::default() });
        assert!(advice.findings.iter().any(|finding| finding.rule == OWN_QUEUE));
        let said: Vec<_> = of_advice(&advice).into_iter().map(|finding| finding.problem).collect();
        assert!(said.iter().any(|text| text.contains("no heartbeat")), "{said:?}");
        assert!(said.iter().all(|text| !text.contains("push")), "{said:?}");
    }
}
