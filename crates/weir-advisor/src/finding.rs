//! The output of a rule.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::action::{Action, Assignment, LineChange};

/// A problem, or a fact that could not be determined.
///
/// The console's rules about Weir's own parts have the same type
/// ([`VerdictFinding`](crate::VerdictFinding)).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The stable name of the rule, such as `unserved-queue`.
    pub rule: Cow<'static, str>,
    /// How bad.
    pub severity: Severity,
    /// How far the evidence proves the finding.
    pub confidence: Confidence,
    /// The queue, process or setting that the finding is about.
    pub subject: String,
    /// The figures that the finding is based on.
    pub evidence: String,
    /// When it began, if a source says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// What happens if nothing is changed.
    #[serde(default)]
    pub consequence: String,
    /// The remedy: lines to change first, then what to run or to do next.
    #[serde(default)]
    pub actions: Vec<Action>,
    /// The Redis server by its address, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
}

/// How far the evidence proves a finding.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The figures allow other explanations that were not excluded.
    Possible,
    /// Inferred from figures that go together, or from a sample.
    Likely,
    /// Read from the server or the process concerned, or computed from such values.
    #[default]
    Certain,
}

/// When a problem began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Since {
    /// Whole seconds before the observation.
    pub seconds_ago: u64,
    /// The field that says so: "`enqueued_at` of its oldest job".
    pub source: Cow<'static, str>,
}

/// How bad a finding is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
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

    /// Returns the word on pages: colour is never the only mark.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Notice => "Notice",
            Self::Warning => "Warning",
            Self::Critical => "Critical",
        }
    }
}

impl Confidence {
    /// Returns the name as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }

    /// Returns what it means, if it is not certain.
    #[must_use]
    pub const fn caveat(self) -> Option<&'static str> {
        match self {
            Self::Certain => None,
            Self::Likely => {
                Some("likely: inferred from figures that go together, or from a sample")
            }
            Self::Possible => Some("possible: the figures allow other explanations"),
        }
    }
}

impl Since {
    /// Returns the duration.
    #[must_use]
    pub const fn ago(&self) -> Duration {
        Duration::from_secs(self.seconds_ago)
    }
}

impl Finding {
    /// Returns a certain finding without a remedy.
    #[must_use]
    pub fn new(
        rule: &'static str,
        severity: Severity,
        subject: impl Into<String>,
        evidence: impl Into<String>,
    ) -> Self {
        Self {
            rule: Cow::Borrowed(rule),
            severity,
            confidence: Confidence::Certain,
            subject: subject.into(),
            evidence: evidence.into(),
            since: None,
            consequence: String::new(),
            actions: Vec::new(),
            shard: None,
        }
    }

    /// Returns the remedy in one line: the lines to change, and what to run or to do next.
    #[must_use]
    pub fn to_do(&self) -> Option<String> {
        let each: Vec<_> = self.actions.iter().map(Action::to_string).collect();
        (!each.is_empty()).then(|| each.join("; then "))
    }

    /// Returns the first line to change.
    #[must_use]
    pub fn line_change(&self) -> Option<&LineChange> {
        self.actions.iter().find_map(Action::line_change)
    }

    pub(crate) fn line_change_mut(&mut self) -> Option<&mut LineChange> {
        self.actions.iter_mut().find_map(|action| match action {
            Action::SetLine(line) => Some(line),
            Action::Run { .. } | Action::Advise { .. } => None,
        })
    }

    /// Returns the command to run next, or what to do next.
    #[must_use]
    pub fn next_step(&self) -> Option<&str> {
        self.actions.iter().find_map(Action::next_step)
    }

    /// Returns the changes to which process serves which queues.
    pub(crate) fn assignments(&self) -> impl Iterator<Item = &Assignment> {
        self.actions.iter().filter_map(Action::line_change).flat_map(|it| &it.serves)
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

    /// Lowers the confidence; it is never raised.
    #[must_use]
    pub fn with_confidence(mut self, confidence: Confidence) -> Self {
        self.confidence = self.confidence.min(confidence);
        self
    }

    /// Says when it began, and which field says so. Less than a second is not worth telling.
    #[must_use]
    pub fn since(mut self, ago: Duration, source: &'static str) -> Self {
        let seconds_ago = ago.as_secs();
        self.since =
            (seconds_ago > 0).then_some(Since { seconds_ago, source: Cow::Borrowed(source) });
        self
    }

    /// Sets the consequence.
    #[must_use]
    pub fn leads_to(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = consequence.into();
        self
    }

    /// Adds to the consequence.
    pub(crate) fn adding(self, text: impl Display) -> Self {
        let consequence = format!("{} {text}", self.consequence);
        self.leads_to(consequence.trim_start())
    }

    /// Sets a change that takes effect on reload.
    pub(crate) fn change(self, place: impl Into<String>, line: impl Into<String>) -> Self {
        self.set_line(LineChange::new(place, line))
    }

    /// Sets a change that takes effect on restart.
    pub(crate) fn change_and_restart(
        self,
        place: impl Into<String>,
        line: impl Into<String>,
    ) -> Self {
        self.set_line(LineChange { restart: true, ..LineChange::new(place, line) })
    }

    fn set_line(mut self, line: LineChange) -> Self {
        self.actions.retain(|it| it.line_change().is_none());
        self.actions.insert(0, Action::SetLine(line));
        self
    }

    /// Adds a line for the same place as the change.
    pub(crate) fn also(mut self, line: impl Into<String>) -> Self {
        if let Some(first) = self.line_change().cloned() {
            self.actions.insert(1, Action::SetLine(LineChange { line: line.into(), ..first }));
        }
        self
    }

    /// Records which process serves which queues after the change.
    pub(crate) fn assigns(mut self, assignment: Assignment) -> Self {
        if let Some(line) = self.line_change_mut() {
            line.serves.push(assignment);
        }
        self
    }

    /// Records how many more connections to the database the change allows.
    pub(crate) fn adds_connections(mut self, connections: u32) -> Self {
        if let Some(line) = self.line_change_mut() {
            line.connections_added = connections;
        }
        self
    }

    /// Sets the command to run next.
    #[must_use]
    pub fn next(self, command: impl Into<String>) -> Self {
        self.set_next(Action::Run { command: command.into() })
    }

    /// Sets the command to run next, or that there is none.
    pub(crate) fn next_if(self, command: Option<String>) -> Self {
        match command {
            Some(command) => self.next(command),
            None => self.without_next(),
        }
    }

    /// Sets what to do next, where that is no command.
    pub(crate) fn advise(self, text: impl Into<String>) -> Self {
        self.set_next(Action::Advise { text: text.into() })
    }

    fn set_next(self, action: Action) -> Self {
        let mut finding = self.without_next();
        finding.actions.push(action);
        finding
    }

    pub(crate) fn without_next(mut self) -> Self {
        self.actions.retain(|it| it.next_step().is_none());
        self
    }

    pub(crate) fn without_actions(mut self) -> Self {
        self.actions.clear();
        self
    }
}

/// Returns the suffix of subjects when there are several Redis servers.
pub(crate) fn on(shard: &str) -> String {
    format!(" of Redis {shard}")
}
