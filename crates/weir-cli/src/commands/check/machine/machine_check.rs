//! The outcome of one check.

use serde_json::{Value, json};

/// A check of this machine.
#[derive(Debug)]
pub(crate) struct MachineCheck {
    /// What was checked: `data directory`, `jobs.listen`.
    pub(super) name: String,
    pub(super) outcome: MachineOutcome,
    /// What was found and, unless it is fine, what to do.
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineOutcome {
    Fine,
    /// Weir runs, but not as it should.
    Warning,
    /// Weir does not start.
    Problem,
}

impl MachineCheck {
    fn new(name: &str, outcome: MachineOutcome, text: impl Into<String>) -> Self {
        Self { name: name.to_owned(), outcome, text: text.into() }
    }

    pub(super) fn fine(name: &str, text: impl Into<String>) -> Self {
        Self::new(name, MachineOutcome::Fine, text)
    }

    pub(super) fn warning(name: &str, text: impl Into<String>) -> Self {
        Self::new(name, MachineOutcome::Warning, text)
    }

    pub(super) fn problem(name: &str, text: impl Into<String>) -> Self {
        Self::new(name, MachineOutcome::Problem, text)
    }

    pub(crate) fn has_problem(&self) -> bool {
        self.outcome == MachineOutcome::Problem
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({"check": self.name, "outcome": self.outcome.word(), "text": self.text})
    }
}

impl MachineOutcome {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}
