//! Errors of Postgres and compatible servers.

use std::time::Duration;

use thiserror::Error;
use tokio_postgres::error::SqlState;

use super::endpoint::chain;

/// Each error names the Postgres and the remedy.
#[derive(Debug, Error)]
pub enum PostgresError {
    /// The address is invalid.
    #[error("Postgres address {address:?}: {problem}")]
    Address {
        /// The address without anything that could be a password.
        address: String,
        /// What is wrong with the address.
        problem: String,
    },
    /// A certificate or a key cannot be used.
    #[error("{path}: {problem}; it must be a PEM file that this user may read")]
    Certificate {
        /// Path of the file.
        path: String,
        /// What is wrong with the file.
        problem: String,
    },
    /// The server reported an error, or the connection broke.
    #[error("{}", chain(.0))]
    Library(#[from] tokio_postgres::Error),
    /// The server did not respond in time.
    #[error("no response within {0:?}; it is overloaded, or far away")]
    Deadline(Duration),
}

impl PostgresError {
    /// Returns the SQLSTATE, if the server reported the error.
    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Library(error) => error.code(),
            _ => None,
        }
    }
}
