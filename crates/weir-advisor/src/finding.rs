//! The output of a rule.

use serde::{Deserialize, Serialize};

/// A problem, or a fact that could not be determined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The stable name of the rule, such as `unserved-queue`.
    pub rule: &'static str,
    /// How bad.
    pub severity: Severity,
    /// The queue, process or setting that the finding is about.
    pub subject: String,
    /// The figures that the finding is based on.
    pub evidence: String,
    /// What happens if nothing is changed.
    pub consequence: String,
    /// The remedy.
    pub change: Option<SuggestedChange>,
    /// The command to run next.
    pub next: Option<String>,
    /// For changes to the served queues: which process serves which queues after the change.
    #[serde(skip)]
    pub assigns: Vec<Assignment>,
    /// The Redis server by its address, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
}

/// A change to which process serves which queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// After a restart, this capsule serves exactly these queues.
    Queues {
        /// The identity of the process.
        process: String,
        /// The capsule of that process.
        capsule: String,
        /// Queues in the order in which they are configured.
        queues: Vec<String>,
    },
    /// A process is stopped for good.
    Stop {
        /// The identity of the process.
        process: String,
    },
    /// One additional process serves these queues.
    Start {
        /// Queues in the order in which they are configured.
        queues: Vec<String>,
    },
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The fact could not be determined.
    Unknown,
    /// Worth knowing; no action is urgent.
    Notice,
    /// It will cause harm.
    Warning,
    /// It causes harm now.
    Critical,
}

impl Severity {
    /// All severities, lowest first.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Notice, Self::Warning, Self::Critical];

    /// Returns the name as used in JSON and in metric labels.
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
    /// The file or the kind of file that contains the line.
    pub place: String,
    /// The line as it should read.
    pub line: String,
    /// Whether the process that reads the line must be restarted.
    pub restart: bool,
}

impl Finding {
    /// Returns the remedy in one line: the line to change, the command to run, or both.
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

    /// Reports whether the finding is about `subject`, on any Redis server.
    #[must_use]
    pub fn is_about(&self, subject: &str) -> bool {
        let rest = self.subject.strip_prefix(subject);
        match &self.shard {
            None => rest == Some(""),
            Some(shard) => rest == Some(on(shard).as_str()),
        }
    }

    /// Marks the finding as belonging to one of several Redis servers.
    pub(crate) fn of_shard(mut self, shard: &str) -> Self {
        self.subject.push_str(&on(shard));
        self.shard = Some(shard.to_owned());
        self
    }

    pub(crate) fn leads_to(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = consequence.into();
        self
    }

    /// Sets a change that takes effect on reload.
    pub(crate) fn change(self, place: impl Into<String>, line: impl Into<String>) -> Self {
        self.changed(place.into(), line.into(), false)
    }

    /// Sets a change that takes effect on restart.
    pub(crate) fn change_and_restart(
        self,
        place: impl Into<String>,
        line: impl Into<String>,
    ) -> Self {
        self.changed(place.into(), line.into(), true)
    }

    /// Records which process serves which queues after the change.
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

/// Returns the suffix of subjects when there are several Redis servers.
pub(crate) fn on(shard: &str) -> String {
    format!(" of Redis {shard}")
}
