//! Why Postgres was not seen, or a part of it.

use std::time::Duration;

use thiserror::Error;
use tokio_postgres::error::SqlState;
use weir_advisor::observation::{Missing, Obstacle};

use super::endpoint::{PostgresEndpoint, chain};

/// Each names the Postgres and what to do.
#[derive(Debug, Error)]
pub enum PostgresError {
    /// An address that is none.
    #[error("Postgres address {address:?}: {problem}")]
    Address {
        /// As given, without what could be a password.
        address: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate or key that can't be used.
    #[error("{path}: {problem}; it must be a PEM file that this user may read")]
    Certificate {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It refused, or the connection broke.
    #[error("{}", chain(.0))]
    Refused(#[from] tokio_postgres::Error),
    /// It takes too long.
    #[error("no answer within {0:?}; it is overloaded, or far away")]
    Deadline(Duration),
}

/// A Postgres of which nothing is known.
pub(super) fn unreachable(endpoint: &PostgresEndpoint, error: &PostgresError) -> Missing {
    missing(&format!("Postgres {endpoint}"), error)
}

/// A part of it.
pub(super) fn missing(what: &str, error: &PostgresError) -> Missing {
    let code = match error {
        PostgresError::Refused(error) => error.code(),
        _ => None,
    };
    let (obstacle, remedy) = code.map_or((Obstacle::Unreachable, None), obstacle);
    let reason = match code {
        Some(code) => format!("{error} (SQLSTATE {})", code.code()),
        None => error.to_string(),
    };
    let (what, remedy) = (what.to_owned(), remedy.map(str::to_owned));
    Missing { what, obstacle, reason, remedy }
}

fn obstacle(code: &SqlState) -> (Obstacle, Option<&'static str>) {
    match code.code() {
        "53300" => (Obstacle::SlotsExhausted, None),
        "42501" => (Obstacle::NotAllowed, Some("GRANT pg_monitor TO the user that asks;")),
        "28000" => (
            Obstacle::NotAllowed,
            Some("a line in pg_hba.conf for this user and address; with TLS: ?sslmode=verify-full"),
        ),
        "28P01" => (Obstacle::NotAllowed, Some("the right password (--postgres-password-file)")),
        "3D000" => (Obstacle::NotAllowed, Some("the name of the application's database")),
        // No such table, column or function in this version.
        "42P01" | "42703" | "42883" => (Obstacle::NotSupported, None),
        _ => (Obstacle::Unreachable, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart() {
        let of = |code| obstacle(&SqlState::from_code(code)).0;
        assert_eq!(of("53300"), Obstacle::SlotsExhausted);
        assert_eq!(of("42501"), Obstacle::NotAllowed);
        assert_eq!(of("42883"), Obstacle::NotSupported);
        assert_eq!(of("57P03"), Obstacle::Unreachable, "it is starting up");
        let late = missing("its sessions", &PostgresError::Deadline(Duration::from_secs(5)));
        assert_eq!(late.obstacle, Obstacle::Unreachable);
    }
}
