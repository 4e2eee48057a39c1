//! Doctor's findings about observed systems.

use weir_advisor::{Advice, Finding, VerdictFinding};

use crate::observed::ObservedSample;
use crate::visible::visible;

/// Doctor passes on what this verdict says about Weir's own parts.
const OWN_PART: &str = "weir-verdict";

/// Returns doctor's findings, with the line to change. Unavailable facts are notices.
pub(super) fn doctor_finds(observed: &ObservedSample) -> Vec<VerdictFinding> {
    let Some(snapshot) = &observed.latest else { return Vec::new() };
    of_advice(&snapshot.advice)
}

fn of_advice(advice: &Advice) -> Vec<VerdictFinding> {
    advice.findings.iter().filter(|found| found.rule != OWN_PART).map(finding).collect()
}

fn finding(found: &Finding) -> VerdictFinding {
    let mut found = VerdictFinding::of_doctor(found, "/doctor");
    found.problem = visible(&found.problem).into_owned();
    found.remedy = visible(&found.remedy).into_owned();
    found
}

#[cfg(test)]
mod tests {
    use weir_advisor::observation::{Fact, Observation, SidekiqObservation};
    use weir_advisor::{Severity, advise};

    use super::*;

    #[test]
    fn what_doctor_has_from_this_verdict_is_not_repeated() {
        let own = Finding::new("queue-late", Severity::Warning, "push", "Queue push is late");
        let own = VerdictFinding::new(own, "Add workers.", "/queues/push");
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
