//! What the rules find.

use serde::Serialize;
use weir_advisor::{Severity, Verdict, VerdictFinding};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// For information.
    Notice,
    /// Becomes a problem if it continues.
    Warning,
    /// A problem now.
    Critical,
}

impl Level {
    /// Returns the word for the level: colour is never the only mark.
    #[must_use]
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Notice => "Notice",
            Self::Warning => "Warning",
            Self::Critical => "Critical",
        }
    }

    /// Returns the severity as metrics and `/v1/status` name it.
    pub(crate) const fn severity(self) -> Severity {
        match self {
            Self::Notice => Severity::Notice,
            Self::Warning => Severity::Warning,
            Self::Critical => Severity::Critical,
        }
    }

    /// Returns the style's class.
    #[must_use]
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// The stable name of the rule.
    pub(crate) rule: &'static str,
    pub(crate) level: Level,
    /// The problem, with its figures.
    #[serde(rename = "what")]
    pub(crate) problem: String,
    /// The remedy.
    #[serde(rename = "todo")]
    pub(crate) remedy: String,
    /// The page that shows it.
    pub(crate) link: String,
    /// The number of affected jobs, which orders findings of one level.
    pub(crate) jobs: u64,
}

/// All findings, the most severe first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HealthVerdict {
    pub(crate) findings: Vec<Finding>,
    /// The headline when there is no problem.
    #[serde(rename = "calm")]
    pub(crate) healthy_headline: String,
}

impl HealthVerdict {
    /// Returns the verdict while the job server does not reply; `problem` is its error.
    pub(crate) fn of_unresponsive_jobs(problem: &str) -> Self {
        let finding = Finding {
            rule: "job-server",
            level: Level::Critical,
            problem: format!("The job server does not respond: {problem}"),
            remedy: "It is starting or stopping, or its thread is stuck: the log says which."
                .to_owned(),
            link: "/".to_owned(),
            jobs: u64::MAX,
        };
        Self { findings: vec![finding], healthy_headline: String::new() }
    }

    /// Returns the headline.
    #[must_use]
    pub(crate) fn headline(&self) -> &str {
        self.worst().map_or(&self.healthy_headline, |finding| &finding.problem)
    }

    /// Returns the most severe finding that needs action. Notices do not count.
    #[must_use]
    pub(crate) fn worst(&self) -> Option<&Finding> {
        self.findings.first().filter(|finding| finding.level > Level::Notice)
    }

    /// Returns the findings below the headline.
    #[must_use]
    pub(crate) fn others(&self) -> &[Finding] {
        match self.worst() {
            Some(_) => &self.findings[1..],
            None => &self.findings,
        }
    }

    /// Returns it as `/v1/status` and the metrics publish it.
    #[must_use]
    pub(crate) fn published(&self) -> Verdict {
        let finding = |finding: &Finding| VerdictFinding {
            rule: finding.rule.to_owned(),
            severity: finding.level.severity(),
            problem: finding.problem.clone(),
            remedy: finding.remedy.clone(),
        };
        Verdict {
            severity: self.worst().map(|finding| finding.level.severity()),
            headline: self.headline().to_owned(),
            findings: self.findings.iter().map(finding).collect(),
        }
    }

    /// Returns the style's class for the whole verdict.
    #[must_use]
    pub(crate) fn class(&self) -> &'static str {
        self.worst().map_or("calm", |finding| finding.level.class())
    }

    /// Returns the word for the whole verdict.
    #[must_use]
    pub(crate) fn label(&self) -> &'static str {
        self.worst().map_or("All well", |finding| finding.level.label())
    }
}
