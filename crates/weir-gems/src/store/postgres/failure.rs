//! Converts errors of Postgres to errors of a store.

use std::error::Error;
use std::io;

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

use crate::store::{PushError, StoreError, YankError};

/// Returns the message of an error and its sources.
pub(super) fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Some errors already include the message of their source.
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}

/// Returns whether the connection failed, so that the outcome of the last statement is unknown.
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || is_io(error) || error.code().is_some_and(is_shutdown)
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<io::Error>())
}

fn is_shutdown(code: &SqlState) -> bool {
    [
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ]
    .contains(&code)
}

fn refuses_connections(code: &SqlState) -> bool {
    is_shutdown(code)
        || [&SqlState::CANNOT_CONNECT_NOW, &SqlState::TOO_MANY_CONNECTIONS].contains(&code)
}

/// Converts an error of a statement.
pub(super) fn of(error: &tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            StoreError::Late { limit: "gems.postgres.limits.write_timeout" }
        }
        Some(&SqlState::QUERY_CANCELED) => {
            StoreError::Late { limit: "gems.postgres.limits.query_timeout" }
        }
        Some(&SqlState::DISK_FULL) => StoreError::Full(sentence(error)),
        Some(code) if refuses_connections(code) => StoreError::Unreachable(sentence(error)),
        _ if is_lost(error) => StoreError::Unreachable(sentence(error)),
        _ => StoreError::Engine(sentence(error).into()),
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        of(&error)
    }
}

impl From<tokio_postgres::Error> for PushError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<tokio_postgres::Error> for YankError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Converts an error of the pool.
pub(super) fn of_pool(error: PoolError) -> StoreError {
    use deadpool_postgres::TimeoutType::{Create, Recycle, Wait};
    match error {
        PoolError::Timeout(Wait) => {
            StoreError::Busy { limit: "gems.postgres.limits.acquire_timeout" }
        }
        PoolError::Timeout(Create | Recycle) => StoreError::Unreachable(
            "no connection within gems.postgres.limits.connect_timeout".to_owned(),
        ),
        PoolError::Backend(error) => StoreError::Unreachable(sentence(&error)),
        other => StoreError::Unreachable(sentence(&other)),
    }
}
