//! Why there is no snapshot.

use std::time::Duration;

use thiserror::Error;

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
    #[error("Redis {name}: {source}")]
    Connection {
        /// Its address.
        name: String,
        /// What the connection said.
        source: redis::RedisError,
    },
    /// A look can't do without it.
    #[error("Redis {name}: {command} is refused: {reason}; ACL SETUSER the user of Weir {grant}")]
    Refused {
        /// Its address.
        name: String,
        /// The command.
        command: String,
        /// What Redis said.
        reason: String,
        /// The rule that allows it.
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
