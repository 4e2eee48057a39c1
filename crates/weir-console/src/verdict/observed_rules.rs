//! Doctor's findings about observed systems.

use weir_advisor::{Advice, Severity};

use super::finding::{Finding, Level};
use crate::observed::ObservedSample;
use crate::visible::visible;

/// Doctor passes on what this verdict says about Weir's own parts.
const OWN_PART: &str = "own-part";

/// Returns doctor's findings, with the line to change. Unavailable facts are notices.
pub(super) fn doctor_finds(observed: &ObservedSample) -> Vec<Finding> {
    let Some(snapshot) = &observed.latest else { return Vec::new() };
    of_advice(&snapshot.advice)
}

fn of_advice(advice: &Advice) -> Vec<Finding> {
    advice.findings.iter().filter(|found| found.rule != OWN_PART).map(finding).collect()
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
    use weir_advisor::observation::{Fact, Observation, SidekiqObservation};
    use weir_advisor::{VerdictFinding, advise};

    use super::*;

    #[test]
    fn what_doctor_has_from_this_verdict_is_not_repeated() {
        let own = VerdictFinding {
            rule: "queue-late".to_owned(),
            severity: Severity::Warning,
            problem: "Queue push is late".to_owned(),
            remedy: "Add workers.".to_owned(),
        };
        let ghosts = vec!["web:7:0123456789ab".to_owned()];
        let jobs = Fact::Known(SidekiqObservation { ghosts, ..SidekiqObservation::default() });
        let own_findings = Fact::Known(vec![own]);
        let advice = advise(&Observation { own_findings, jobs, ..Observation::default() });
        assert!(advice.findings.iter().any(|finding| finding.rule == OWN_PART));
        let said: Vec<_> = of_advice(&advice).into_iter().map(|finding| finding.problem).collect();
        assert!(said.iter().any(|text| text.contains("no heartbeat")), "{said:?}");
        assert!(said.iter().all(|text| !text.contains("push")), "{said:?}");
    }
}
