//! What the rules find.

use serde::Serialize;

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
