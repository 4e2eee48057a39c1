//! The verdict about a running Weir: what is wrong with its own parts and with what it observes.
//!
//! The console computes it once per sample; the console's pages, `weir status`, `/v1/status` and the metrics show it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::finding::Severity;

/// All that is wrong, worst first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst severity that needs action (warning or critical); None: nothing does.
    pub severity: Option<Severity>,
    /// One sentence: the worst problem, or that all is well.
    pub headline: String,
    /// Worst first.
    pub findings: Vec<VerdictFinding>,
}

/// One problem of a running Weir.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictFinding {
    /// The stable name of the rule, such as `queue-not-fetched`, or that of a rule of doctor.
    pub rule: String,
    pub severity: Severity,
    /// The problem, with its figures.
    pub problem: String,
    /// What to do about it.
    pub remedy: String,
}

impl Verdict {
    /// Returns the number of findings of each severity, zeros included.
    #[must_use]
    pub fn by_severity(&self) -> [(Severity, usize); Severity::ALL.len()] {
        Severity::ALL.map(|severity| {
            let count = self.findings.iter().filter(|it| it.severity == severity).count();
            (severity, count)
        })
    }

    /// Returns the number of findings of each rule that has one.
    #[must_use]
    pub fn by_rule(&self) -> BTreeMap<&str, usize> {
        let mut rules = BTreeMap::new();
        for finding in &self.findings {
            *rules.entry(finding.rule.as_str()).or_default() += 1;
        }
        rules
    }
}
