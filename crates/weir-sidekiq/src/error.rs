//! Why there is no snapshot.

use std::time::Duration;

use thiserror::Error;

use crate::unready::UnreadyKind;

/// Each names the Redis and what to do.
#[derive(Debug, Error)]
pub enum SidekiqError {
    /// An address that is none.
    #[error("Redis address {address:?}: {problem}")]
    Address {
        /// As given, without what could be a password.
        address: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A certificate or key that can't be read.
    #[error("{path}: {source}; it must be a PEM file that this user may read")]
    Certificate {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Nobody there, or not let in.
    #[error("Redis {name}: {reason}")]
    Connection {
        /// Its address.
        name: String,
        /// What the connection said.
        reason: String,
    },
    /// It answers nobody just now, or not whoever asks like this.
    #[error("Redis {name} {what} ({reason}); {remedy}")]
    Unready {
        /// Its address.
        name: String,
        /// What keeps it from answering.
        kind: UnreadyKind,
        /// What it does instead.
        what: &'static str,
        /// What Redis said.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The user that asks may not do what can't be done without.
    #[error("Redis {name}: {command} is rejected: {reason}; {grant}")]
    Refused {
        /// Its address.
        name: String,
        /// The command.
        command: String,
        /// What Redis said.
        reason: String,
        /// The line that allows it: `ACL SETUSER weir +zcard`.
        grant: String,
    },
    /// It takes too long.
    #[error("Redis {name}: no snapshot within {after:?}; it is overloaded, or far away")]
    Deadline {
        /// Its address.
        name: String,
        /// The limit.
        after: Duration,
    },
    /// It would cost too much.
    #[error("Redis {name}: a snapshot needs more than {commands_max} commands (commands_max)")]
    TooManyCommands {
        /// Its address.
        name: String,
        /// The limit.
        commands_max: usize,
    },
}
