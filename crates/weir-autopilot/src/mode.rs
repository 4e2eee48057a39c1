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

/// The job system that the autopilot watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Choice)]
#[serde(rename_all = "lowercase")]
pub enum WatchedSystem {
    /// What `manage` names; without it Sidekiq, if a Redis is observed.
    #[default]
    Auto,
    /// Weir's job server.
    Jobs,
    /// Sidekiq, through an observed Redis.
    Sidekiq,
}

/// A job system, as far as the autopilot must know what can be limited in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobSystem {
    /// Weir's job server: any type of job can be limited, at once.
    #[default]
    JobServer,
    /// Sidekiq: its threads, by replacing processes. It has no limit for a job type; an actuator may have a substitute.
    Sidekiq,
}

impl JobSystem {
    /// Returns its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JobServer => "the job server",
            Self::Sidekiq => "the observed Sidekiq",
        }
    }

    /// Returns whether the system itself can limit a single class of jobs.
    #[must_use]
    pub const fn limits_classes(self) -> bool {
        matches!(self, Self::JobServer)
    }
}

/// A system whose values the autopilot may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub enum ManagedSystem {
    /// The queues of Weir's job server.
    Jobs,
    /// The threads of `[workers.NAME]`.
    Workers(String),
}

/// The table of the groups of workers.
const WORKERS: &str = "workers.";

impl ManagedSystem {
    /// Returns the name of the group of workers, if it is one.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Jobs => None,
            Self::Workers(name) => Some(name),
        }
    }
}

impl fmt::Display for ManagedSystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jobs => formatter.write_str("jobs"),
            Self::Workers(name) => write!(formatter, "{WORKERS}{name}"),
        }
    }
}

impl FromStr for ManagedSystem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix(WORKERS)) {
            ("jobs", _) => Ok(Self::Jobs),
            (_, Some(name)) if !name.is_empty() => Ok(Self::Workers(name.to_owned())),
            _ => Err(format!(
                "{text:?} cannot be managed; \"jobs\" can (the queues of Weir's job server), and \"workers.NAME\" (the \
                 threads of [workers.NAME])"
            )),
        }
    }
}

impl From<ManagedSystem> for String {
    fn from(managed: ManagedSystem) -> Self {
        managed.to_string()
    }
}

impl TryFrom<String> for ManagedSystem {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_managed_is_read_as_it_is_written() {
        for text in ["jobs", "workers.sidekiq", "workers.a.b"] {
            let managed: ManagedSystem = text.parse().unwrap();
            assert_eq!(managed.to_string(), text);
            let json = serde_json::to_string(&managed).unwrap();
            assert_eq!(serde_json::from_str::<ManagedSystem>(&json).unwrap(), managed);
        }
        for text in ["", "workers", "workers.", "sidekiq"] {
            assert!(text.parse::<ManagedSystem>().is_err(), "{text}");
        }
    }
}
