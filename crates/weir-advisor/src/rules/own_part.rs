//! A finding of Weir's verdict about its own parts: doctor passes it on, so that there is one finding per problem.

use crate::finding::Finding;
use crate::observation::Observation;
use crate::verdict::VerdictFinding;

pub(crate) const NAME: &str = "own-part";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    observation.own_findings.known().into_iter().flatten().map(found).collect()
}

fn found(finding: &VerdictFinding) -> Finding {
    let subject = format!("Weir ({})", finding.rule);
    Finding::new(NAME, finding.severity, subject, finding.problem.as_str())
        .leads_to(finding.remedy.as_str())
        .next("weir status")
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
        observation.own_findings = Fact::Known(vec![VerdictFinding {
            rule: "no-worker".to_owned(),
            severity: Severity::Critical,
            problem: "No worker is connected and 3 jobs wait".to_owned(),
            remedy: "Start your workers.".to_owned(),
        }]);
        let finding = check(&observation).remove(0);
        assert_eq!((finding.rule, finding.severity), (NAME, Severity::Critical));
        assert_eq!(finding.subject, "Weir (no-worker)");
        assert_eq!(finding.evidence, "No worker is connected and 3 jobs wait");
        assert_eq!(finding.consequence, "Start your workers.");
    }
}
