//! What a rule says.

use serde::Serialize;

/// One thing that is wrong, or not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule, by a name that stays: `unserved-queue`.
    pub rule: &'static str,
    /// How bad.
    pub severity: Severity,
    /// What it is about: a queue, a process, a setting.
    pub subject: String,
    /// What was seen, with figures.
    pub evidence: String,
    /// What that leads to.
    pub consequence: String,
    /// What ends it.
    pub change: Option<SuggestedChange>,
    /// The command to run next.
    pub next: Option<String>,
    /// Who serves which queues once it is done, for a change of that.
    #[serde(skip)]
    pub assigns: Vec<Assignment>,
    /// Whose it is, where there are several Redis servers: the one, as its address names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
}

/// A change of which process serves which queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// A capsule of a process has these queues, and no others, once it is restarted.
    Queues {
        /// Its identity.
        process: String,
        /// Of its capsules this one.
        capsule: String,
        /// In their order.
        queues: Vec<String>,
        /// Of those that it served, names that were misspelt: they lose nothing.
        misspelt: Vec<String>,
    },
    /// A process is stopped for good.
    Stop {
        /// Its identity.
        process: String,
    },
    /// One more process serves these queues.
    Start {
        /// In their order.
        queues: Vec<String>,
    },
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It could not be seen.
    Unknown,
    /// Worth knowing.
    Notice,
    /// It will hurt.
    Warning,
    /// It hurts now.
    Critical,
}

impl Severity {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Notice, Self::Warning, Self::Critical];

    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// The exact line to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SuggestedChange {
    /// The file, or the kind of file, where it stands.
    pub place: String,
    /// As it should be.
    pub line: String,
    /// Whether the change takes a restart of what reads the line.
    pub restart: bool,
}

impl Finding {
    /// What to do about it, in one line: the line to change, the command to run, or both.
    #[must_use]
    pub fn to_do(&self) -> Option<String> {
        let change = self.change.as_ref();
        let change = change.map(|change| format!("in {}: {}", change.place, change.line));
        let both: Vec<_> = change.into_iter().chain(self.next.clone()).collect();
        (!both.is_empty()).then(|| both.join("; then "))
    }

    pub(crate) fn new(
        rule: &'static str,
        severity: Severity,
        subject: impl Into<String>,
        evidence: impl Into<String>,
    ) -> Self {
        let (subject, evidence) = (subject.into(), evidence.into());
        let consequence = String::new();
        let (change, next, assigns, shard) = (None, None, Vec::new(), None);
        Self { rule, severity, subject, evidence, consequence, change, next, assigns, shard }
    }

    /// Whether it is about this, on whatever Redis.
    #[must_use]
    pub fn is_about(&self, subject: &str) -> bool {
        let rest = self.subject.strip_prefix(subject);
        match &self.shard {
            None => rest == Some(""),
            Some(shard) => rest == Some(on(shard).as_str()),
        }
    }

    /// One of several Redis servers'.
    pub(crate) fn of_shard(mut self, shard: &str) -> Self {
        self.subject.push_str(&on(shard));
        self.shard = Some(shard.to_owned());
        self
    }

    pub(crate) fn leads_to(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = consequence.into();
        self
    }

    /// A line that takes effect when its file is read again.
    pub(crate) fn change(self, place: impl Into<String>, line: impl Into<String>) -> Self {
        self.changed(place.into(), line.into(), false)
    }

    /// A line that takes effect when the process starts again.
    pub(crate) fn change_and_restart(
        self,
        place: impl Into<String>,
        line: impl Into<String>,
    ) -> Self {
        self.changed(place.into(), line.into(), true)
    }

    /// Who serves what once the change is done.
    pub(crate) fn assigns(mut self, assignment: Assignment) -> Self {
        self.assigns.push(assignment);
        self
    }

    pub(crate) fn next(mut self, command: impl Into<String>) -> Self {
        self.next = Some(command.into());
        self
    }

    fn changed(mut self, place: String, line: String, restart: bool) -> Self {
        self.change = Some(SuggestedChange { place, line, restart });
        self
    }
}

/// What a subject ends with where there are several Redis servers.
pub(crate) fn on(shard: &str) -> String {
    format!(" of Redis {shard}")
}
