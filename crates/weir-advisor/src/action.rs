//! Remedies as data, so that a program can check or carry them out.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One step of a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// Set this line where it is read.
    SetLine(LineChange),
    /// Run this command in a shell.
    Run {
        /// Complete: it can be pasted unchanged.
        command: String,
    },
    /// Do this by hand.
    Advise {
        /// The instruction.
        text: String,
    },
}

/// The exact line to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineChange {
    /// The file or the kind of file that contains the line.
    pub place: String,
    /// The line as it should read.
    pub line: String,
    /// Whether the process that reads the line must be restarted.
    pub restart: bool,
    /// Which process serves which queues after the change, if it changes that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<Assignment>,
    /// How many more connections to the database may be open after the change.
    #[serde(default)]
    pub connections_added: u32,
}

/// A change to which process serves which queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
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

impl LineChange {
    pub(crate) fn new(place: impl Into<String>, line: impl Into<String>) -> Self {
        Self { place: place.into(), line: line.into(), ..Self::default() }
    }
}

impl Action {
    /// Returns the line to set.
    #[must_use]
    pub const fn line_change(&self) -> Option<&LineChange> {
        match self {
            Self::SetLine(line) => Some(line),
            Self::Run { .. } | Self::Advise { .. } => None,
        }
    }

    /// Returns the command to run, or the instruction.
    #[must_use]
    pub fn next_step(&self) -> Option<&str> {
        match self {
            Self::SetLine(_) => None,
            Self::Run { command: text } | Self::Advise { text } => Some(text),
        }
    }

    /// Returns the text that is meant to be used unchanged: the line or the command.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Self::SetLine(LineChange { line: text, .. }) | Self::Run { command: text } => {
                Some(text)
            }
            Self::Advise { .. } => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SetLine(LineChange { place, line, .. }) => {
                write!(formatter, "in {place}: {line}")
            }
            Self::Run { command: text } | Self::Advise { text } => formatter.write_str(text),
        }
    }
}
