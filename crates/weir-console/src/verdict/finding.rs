//! What the rules find.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Worth knowing.
    Notice,
    /// Will hurt if it goes on.
    Warning,
    /// Hurts now.
    Critical,
}

impl Level {
    /// The word for the level: colour never stands alone.
    #[must_use]
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Notice => "Notice",
            Self::Warning => "Warning",
            Self::Critical => "Critical",
        }
    }

    /// The style's class.
    #[must_use]
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// What is wrong, with its figures.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) todo: String,
    /// The page that shows it.
    pub(crate) link: String,
    /// How many jobs it concerns: the order within a level.
    pub(crate) jobs: u64,
}

/// All that is wrong, gravest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HealthVerdict {
    pub(crate) findings: Vec<Finding>,
    /// What to say when nothing is wrong.
    pub(crate) calm: String,
}

impl HealthVerdict {
    /// The one line.
    #[must_use]
    pub(crate) fn headline(&self) -> &str {
        self.worst().map_or(&self.calm, |finding| &finding.what)
    }

    /// The gravest finding worth acting on. A notice doesn't make a verdict.
    #[must_use]
    pub(crate) fn worst(&self) -> Option<&Finding> {
        self.findings.first().filter(|finding| finding.level > Level::Notice)
    }

    /// The findings below the headline.
    #[must_use]
    pub(crate) fn others(&self) -> &[Finding] {
        match self.worst() {
            Some(_) => &self.findings[1..],
            None => &self.findings,
        }
    }

    /// The style's class for the whole.
    #[must_use]
    pub(crate) fn class(&self) -> &'static str {
        self.worst().map_or("calm", |finding| finding.level.class())
    }

    /// The word for the whole.
    #[must_use]
    pub(crate) fn word(&self) -> &'static str {
        self.worst().map_or("All well", |finding| finding.level.word())
    }
}
