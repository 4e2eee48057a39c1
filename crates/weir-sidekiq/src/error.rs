//! Errors that prevent a sample.

use std::time::Duration;

use thiserror::Error;

use crate::unready::UnreadyKind;

/// Each error names the Redis and the remedy.
#[derive(Debug, Error)]
pub enum SidekiqError {
    /// The address is invalid.
    #[error("Redis address {address:?}: {problem}")]
    Address {
        /// The address without anything that could be a password.
        address: String,
        /// What is wrong with the address.
        problem: &'static str,
    },
    /// A certificate or a key cannot be read.
    #[error("{path}: {source}; it must be a PEM file that this user may read")]
    Certificate {
        /// The file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The connection or the login failed.
    #[error("Redis {name}: {reason}")]
    Connection {
        /// Address of the Redis.
        name: String,
        /// The error of the connection.
        reason: String,
    },
    /// The Redis rejects all commands at present, or all from this client.
    #[error("Redis {name} {what} ({reason}); {remedy}")]
    Unready {
        /// Address of the Redis.
        name: String,
        /// Why it rejects commands.
        kind: UnreadyKind,
        /// What it does, in words.
        what: &'static str,
        /// The error message from Redis.
        reason: String,
        /// What an operator can do.
        remedy: &'static str,
    },
    /// The user lacks permission for an indispensable command.
    #[error("Redis {name}: {command} is rejected: {reason}; {grant}")]
    Refused {
        /// Address of the Redis.
        name: String,
        /// The command.
        command: String,
        /// The error message from Redis.
        reason: String,
        /// The command that grants the permission: `ACL SETUSER weir +zcard`.
        grant: String,
    },
    /// The sample takes too long.
    #[error("Redis {name}: no snapshot within {after:?}; it is overloaded, or far away")]
    Deadline {
        /// Address of the Redis.
        name: String,
        /// The limit.
        after: Duration,
    },
    /// The sample needs too many commands.
    #[error("Redis {name}: a snapshot needs more than {commands_max} commands (commands_max)")]
    TooManyCommands {
        /// Address of the Redis.
        name: String,
        /// The limit.
        commands_max: usize,
    },
}
