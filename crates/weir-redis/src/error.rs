//! Errors of connections.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::address::RedisAddress;
use crate::error_kind::RedisErrorKind;
use crate::explanation::Explanation;
use crate::network_error::NetworkErrorKind;

/// Why there is no connection. Each error names the Redis and the remedy.
#[derive(Debug, Error)]
pub enum ConnectError {
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
    /// The file with the password cannot be read.
    #[error("Redis {name}: {problem}; its password is in this file")]
    Password {
        /// Address of the Redis.
        name: String,
        /// The error, with the path.
        problem: String,
    },
    /// The Redis cannot be used.
    #[error(transparent)]
    Redis(#[from] RedisConnectionError),
    /// Connecting takes too long.
    #[error("Redis {name}: no connection within {after:?}; it is overloaded, or far away")]
    Deadline {
        /// Address of the Redis.
        name: String,
        /// The limit.
        after: Duration,
    },
}

/// The error of connecting to a Redis, of logging in, or of a command that a caller cannot do
/// without. Callers decide by its kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct RedisConnectionError {
    /// Address of the Redis.
    pub name: String,
    /// The kind of error.
    pub kind: RedisErrorKind,
    /// The message of Redis, of the operating system or of TLS.
    pub message: String,
    pub(crate) explanation: Option<Explanation>,
}

impl RedisConnectionError {
    /// Creates an error. States of Redis explain themselves.
    #[must_use]
    pub fn new(name: &str, kind: RedisErrorKind, message: String) -> Self {
        let explanation = Explanation::of_state(&kind);
        Self { name: name.to_owned(), kind, message, explanation }
    }

    /// Creates the error of a command that `grant` allows: `ACL SETUSER weir +zcard`.
    #[must_use]
    pub fn no_permission(name: &str, command: String, message: String, grant: String) -> Self {
        let description = format!("rejects {command}");
        let explanation = Some(Explanation { description, remedy: grant });
        let kind = RedisErrorKind::NoPermission { command };
        Self { name: name.to_owned(), kind, message, explanation }
    }

    /// Completes the error of the first command to this address. With TLS 1.3, a server rejects a
    /// client's certificate then.
    #[must_use]
    pub fn of_first_command(mut self, address: &RedisAddress) -> Self {
        if let RedisErrorKind::Network(kind @ NetworkErrorKind::Tls(_)) = self.kind {
            self.explanation = Explanation::of_connecting(address, kind).or(self.explanation);
        }
        self
    }

    /// Returns what an operator can do.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.explanation.as_ref().map(|explanation| explanation.remedy.as_str())
    }

    /// Returns the message without the remedy.
    #[must_use]
    pub fn description(&self) -> String {
        let Self { name, message, .. } = self;
        match &self.explanation {
            Some(Explanation { description, .. }) => {
                format!("Redis {name} {description} ({message})")
            }
            None => format!("Redis {name}: {message}"),
        }
    }
}

impl fmt::Display for RedisConnectionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.description())?;
        self.remedy().map_or(Ok(()), |remedy| write!(formatter, "; {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_has_the_state_and_the_remedy() {
        let message = "LOADING Redis is loading".to_owned();
        let error = RedisConnectionError::new("a:6379", RedisErrorKind::Loading, message);
        let expected =
            "Redis a:6379 is still loading its data from disk (LOADING Redis is loading)";
        assert_eq!(error.description(), expected);
        assert!(
            error
                .to_string()
                .ends_with("; wait until `redis-cli INFO persistence` shows loading:0")
        );
        let (command, message) = ("SELECT".to_owned(), "NOPERM no".to_owned());
        let grant = "ACL SETUSER weir +select".to_owned();
        let error = RedisConnectionError::no_permission("a:6379/1", command, message, grant);
        let expected = "Redis a:6379/1 rejects SELECT (NOPERM no); ACL SETUSER weir +select";
        assert_eq!(error.to_string(), expected);
        let error = RedisConnectionError::new("a:1", RedisErrorKind::Other, "ERR x".to_owned());
        assert_eq!((error.to_string(), error.remedy()), ("Redis a:1: ERR x".to_owned(), None));
    }
}
