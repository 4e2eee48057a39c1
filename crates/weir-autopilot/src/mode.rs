//! What the autopilot may do.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_settings::Choice;

/// What the autopilot may do.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Choice,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing: it does not even read the database.
    #[default]
    Off,
    /// Say what it would do, in the log and in the journal.
    Advise,
    /// Do it.
    On,
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.word())
    }
}

/// A system whose values the autopilot may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ManagedSystem {
    /// The queues of Weir's job server.
    Jobs,
}

impl fmt::Display for ManagedSystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs => formatter.write_str("jobs"),
        }
    }
}

impl FromStr for ManagedSystem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "jobs" => Ok(Self::Jobs),
            _ => Err(format!(
                "{text:?} cannot be managed; \"jobs\" can: the queues of Weir's job server"
            )),
        }
    }
}
