//! A finding of Weir's verdict about its own parts: doctor passes it on, so that there is one finding per problem.

use crate::finding::Finding;
use crate::observation::Observation;
use crate::verdict::VerdictFinding;

pub(crate) const NAME: &str = "weir-verdict";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    observation.own_findings.known().into_iter().flatten().map(found).collect()
}

fn found(own: &VerdictFinding) -> Finding {
    let VerdictFinding { finding, problem, remedy, .. } = own;
    let subject = format!("Weir ({})", finding.rule);
    let found = Finding { rule: NAME.into(), subject, ..finding.clone() }.leads_to(remedy.as_str());
    let found = Finding { evidence: problem.clone(), ..found };
    if finding.actions.is_empty() { found.next("weir status") } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::healthy;
    use crate::observation::Fact;

    #[test]
    fn a_finding_of_the_verdict_is_passed_on() {
        let mut observation = healthy::observation();
        assert_eq!(check(&observation), []);
        let problem = "No worker is connected and 3 jobs wait";
        let own = Finding::new("no-worker", Severity::Critical, "workers", problem)
            .since(std::time::Duration::from_secs(60), "enqueued_at of the oldest job");
        let own = VerdictFinding::new(own, "Start your workers.", "/workers");
        observation.own_findings = Fact::Known(vec![own.clone()]);
        let finding = check(&observation).remove(0);
        assert_eq!((&*finding.rule, finding.severity), (NAME, Severity::Critical));
        assert_eq!(
            (&finding.since, finding.next_step()),
            (&own.finding.since, Some("weir status"))
        );
        assert_eq!(finding.subject, "Weir (no-worker)");
        assert_eq!(finding.evidence, "No worker is connected and 3 jobs wait");
        assert_eq!(finding.consequence, "Start your workers.");
    }
}
