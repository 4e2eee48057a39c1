//! The verdict about a running Weir: what is wrong with its own parts and with what it observes.
//!
//! The console computes it once per sample; the console's pages, `weir status`, `/v1/status` and the metrics show it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::finding::{Finding, Severity};

/// All that is wrong, worst first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The worst severity that needs action (warning or critical); None: nothing does.
    pub severity: Option<Severity>,
    /// One sentence: the worst problem, or that all is well.
    pub headline: String,
    /// Worst first.
    pub findings: Vec<VerdictFinding>,
}

/// A finding as people read it in a list: two sentences, and where to look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictFinding {
    #[serde(flatten)]
    pub finding: Finding,
    /// The problem, with its figures.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
    /// The page of the console that shows it.
    pub page: String,
    /// The number of jobs or requests that are affected now, which orders findings of one severity.
    #[serde(skip)]
    pub jobs: u64,
}

impl VerdictFinding {
    /// Returns a finding whose evidence is a sentence that says the problem.
    #[must_use]
    pub fn new(finding: Finding, remedy: impl Into<String>, page: impl Into<String>) -> Self {
        let (problem, remedy, page) = (finding.evidence.clone(), remedy.into(), page.into());
        Self { finding, problem, remedy, page, jobs: 0 }
    }

    /// Returns a finding of doctor.
    #[must_use]
    pub fn of_doctor(finding: &Finding, page: &str) -> Self {
        let problem = format!("{}: {}", finding.subject, finding.evidence);
        let remedy = match finding.actions.first() {
            Some(Action::SetLine(line)) => format!("In {}: {}", line.place, line.line),
            Some(Action::Run { command: text } | Action::Advise { text }) => text.clone(),
            None => finding.consequence.clone(),
        };
        let (finding, page) = (finding.clone(), page.to_owned());
        Self { finding, problem, remedy, page, jobs: 0 }
    }

    /// Changes the finding, but not its sentences.
    #[must_use]
    pub fn map(self, change: impl FnOnce(Finding) -> Finding) -> Self {
        Self { finding: change(self.finding), ..self }
    }

    /// Sets the number of affected jobs or requests.
    #[must_use]
    pub fn affecting(self, jobs: u64) -> Self {
        Self { jobs, ..self }
    }
}

impl Verdict {
    /// Returns the verdict of these findings; `healthy_headline` is for none that needs action.
    #[must_use]
    pub fn new(mut findings: Vec<VerdictFinding>, healthy_headline: String) -> Self {
        let rank = |it: &VerdictFinding| Reverse((it.finding.severity, it.jobs));
        findings.sort_by_key(rank);
        let mut verdict = Self { severity: None, headline: healthy_headline, findings };
        if let Some(worst) = verdict.worst() {
            (verdict.severity, verdict.headline) =
                (Some(worst.finding.severity), worst.problem.clone());
        }
        verdict
    }

    /// Returns the worst finding that needs action. Notices do not.
    #[must_use]
    pub fn worst(&self) -> Option<&VerdictFinding> {
        self.findings.first().filter(|it| it.finding.severity > Severity::Notice)
    }

    /// Returns the findings below the headline.
    #[must_use]
    pub fn others(&self) -> &[VerdictFinding] {
        &self.findings[usize::from(self.worst().is_some())..]
    }

    /// Returns the number of findings of each severity, zeros included.
    #[must_use]
    pub fn by_severity(&self) -> [(Severity, usize); Severity::ALL.len()] {
        Severity::ALL.map(|severity| {
            let is_it = |it: &&VerdictFinding| it.finding.severity == severity;
            (severity, self.findings.iter().filter(is_it).count())
        })
    }

    /// Returns the number of findings of each rule that has one.
    #[must_use]
    pub fn by_rule(&self) -> BTreeMap<&str, usize> {
        let mut rules = BTreeMap::new();
        for found in &self.findings {
            *rules.entry(&*found.finding.rule).or_default() += 1;
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::finding::Confidence;
    use crate::queue_line::one_more;

    fn finding() -> Finding {
        let finding =
            Finding::new("starving-queue", Severity::Critical, "queue mail", "40 jobs wait")
                .with_confidence(Confidence::Likely)
                .since(Duration::from_secs(90), "enqueued_at of its oldest job");
        one_more(finding, 5, &["mail"]).next("weir plan")
    }

    #[test]
    fn json_has_the_whole_finding_beside_its_sentences() {
        let own = VerdictFinding::new(finding(), "Add workers.", "/queues/mail").affecting(40);
        let json = serde_json::to_value(&own).unwrap();
        let expected = serde_json::json!({
            "rule": "starving-queue",
            "severity": "critical",
            "confidence": "likely",
            "subject": "queue mail",
            "evidence": "40 jobs wait",
            "since": { "seconds_ago": 90, "source": "enqueued_at of its oldest job" },
            "consequence": "",
            "actions": [
                {
                    "do": "set_line",
                    "place": "one additional process",
                    "line": "bundle exec sidekiq -c 5 -q mail",
                    "restart": false,
                    "serves": [{ "change": "start", "queues": ["mail"] }],
                    "connections_added": 5,
                },
                { "do": "run", "command": "weir plan" },
            ],
            "problem": "40 jobs wait",
            "remedy": "Add workers.",
            "page": "/queues/mail",
        });
        assert_eq!(json, expected);
        let read: VerdictFinding = serde_json::from_value(json).unwrap();
        assert_eq!(read, own.affecting(0));
    }

    #[test]
    fn the_worst_comes_first_and_among_equals_the_one_with_the_most_jobs() {
        let of = |severity, jobs| {
            let finding = Finding::new("rule", severity, "a", format!("{jobs} jobs"));
            VerdictFinding::new(finding, "", "/").affecting(jobs)
        };
        let notices = vec![of(Severity::Unknown, 9), of(Severity::Notice, 1)];
        let calm = Verdict::new(notices.clone(), "All is well".to_owned());
        assert_eq!((calm.severity, calm.headline.as_str()), (None, "All is well"));
        assert_eq!((calm.worst(), calm.others().len()), (None, 2), "nothing needs action");
        let worse =
            [of(Severity::Warning, 3), of(Severity::Critical, 2), of(Severity::Critical, 5)];
        let verdict = Verdict::new(notices.into_iter().chain(worse).collect(), String::new());
        let order: Vec<_> = verdict.findings.iter().map(|it| it.jobs).collect();
        assert_eq!(order, [5, 2, 3, 1, 9]);
        let headline = (verdict.severity, verdict.headline.as_str());
        assert_eq!(headline, (Some(Severity::Critical), "5 jobs"));
        assert_eq!(verdict.others().len(), 4);
    }

    #[test]
    fn a_finding_of_doctor_says_the_first_step() {
        let found = VerdictFinding::of_doctor(&finding(), "/doctor");
        assert_eq!(found.problem, "queue mail: 40 jobs wait");
        assert_eq!(found.remedy, "In one additional process: bundle exec sidekiq -c 5 -q mail");
        let none = Finding::new("rule", Severity::Notice, "a", "b").leads_to("Nothing.");
        assert_eq!(VerdictFinding::of_doctor(&none, "/").remedy, "Nothing.");
    }
}
