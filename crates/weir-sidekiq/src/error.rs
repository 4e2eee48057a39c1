//! Errors that prevent a sample.

use std::time::Duration;

use thiserror::Error;
use weir_redis::{ConnectError, RedisConnectionError};

/// Each error names the Redis and the remedy.
#[derive(Debug, Error)]
pub enum SidekiqError {
    /// A file with a certificate, a key or a password cannot be read.
    #[error(transparent)]
    Connect(ConnectError),
    /// The Redis cannot be used, or rejects an indispensable command.
    #[error(transparent)]
    Redis(#[from] RedisConnectionError),
    /// The sample takes too long.
    #[error("Redis {name} did not reply to all commands within {after:?}: it is slow, or far away")]
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

impl From<ConnectError> for SidekiqError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Redis(error) => Self::Redis(error),
            ConnectError::Deadline { name, after } => Self::Deadline { name, after },
            error => Self::Connect(error),
        }
    }
}
