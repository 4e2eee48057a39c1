//! Explains why Postgres or a part of its data could not be read.

use std::time::Duration;

use thiserror::Error;
use tokio_postgres::error::SqlState;
use weir_advisor::observation::{Holder, Missing, MissingReason};
use weir_advisor::sql::identifier;

use super::away;
use super::endpoint::{PostgresEndpoint, chain};

/// The remedy for a PgBouncer that rejects further clients.
pub(crate) const MAX_CLIENT_CONN: &str = "raise max_client_conn in PgBouncer's settings, then \
                                          RELOAD; SHOW CLIENTS there lists the clients";
/// Placeholder for an unknown user.
const SOMEBODY: &str = "USER";

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
    Refused(#[from] tokio_postgres::Error),
    /// The server did not respond in time.
    #[error("no response within {0:?}; it is overloaded, or far away")]
    Deadline(Duration),
}

/// Returns why nothing is known of a Postgres.
pub(super) fn unreachable(endpoint: &PostgresEndpoint, error: &PostgresError) -> Missing {
    let what = format!("Postgres {endpoint}");
    let missing = missing(&what, endpoint.user(), error);
    match code(error) {
        Some(code) if *code == SqlState::TOO_MANY_CONNECTIONS => match limit_of(error) {
            Some(alter) => {
                let remedy = Some(format!("{alter} CONNECTION LIMIT -1;"));
                Missing { obstacle: MissingReason::LimitReached, remedy, ..missing }
            }
            None => missing,
        },
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            let database = identifier(endpoint.database().unwrap_or("postgres"));
            let user = identifier(endpoint.user().unwrap_or(SOMEBODY));
            let remedy = Some(format!("GRANT CONNECT ON DATABASE {database} TO {user};"));
            Missing { remedy, ..missing }
        }
        // PgBouncer's own error.
        Some(_) if missing.reason.contains("(max_client_conn)") => {
            Missing { remedy: Some(MAX_CLIENT_CONN.to_owned()), ..missing }
        }
        Some(_) => missing,
        None => match away::of(error, endpoint.is_tls()) {
            Some((obstacle, remedy)) => {
                Missing { obstacle, remedy: Some(remedy.to_owned()), ..missing }
            }
            None => missing,
        },
    }
}

/// Returns the reason for a server that accepts clients but does not respond.
pub(super) fn silent(endpoint: &PostgresEndpoint, after: Duration) -> Missing {
    let remedy = "if a pooler is in between, its clients wait for one of its connections \
                  (cl_waiting of SHOW POOLS in PgBouncer's own database): use the address of the \
                  database to see which processes hold them, or raise default_pool_size; \
                  --pgbouncer-url shows the waiting clients; otherwise it is overloaded";
    Missing {
        what: format!("Postgres {endpoint}"),
        obstacle: MissingReason::Unreachable,
        reason: format!("it accepts clients but sends no response within {after:?}"),
        remedy: Some(remedy.to_owned()),
    }
}

/// Returns why `user` could not read a part of the data.
pub(crate) fn missing(what: &str, user: Option<&str>, error: &PostgresError) -> Missing {
    let code = code(error);
    let (obstacle, remedy) =
        code.map_or((MissingReason::Unreachable, None), |code| obstacle(code, user));
    let reason = match code {
        Some(code) => format!("{error} (SQLSTATE {})", code.code()),
        None => error.to_string(),
    };
    let (obstacle, remedy) = no_such_role(&reason, user).unwrap_or((obstacle, remedy));
    Missing { what: what.to_owned(), obstacle, reason, remedy }
}

/// Returns the beginning of the statement that changes the limit, if it belongs to a role or a
/// database. The error code is the same as for the server's limit, so the English message is
/// parsed.
fn limit_of(error: &PostgresError) -> Option<String> {
    let PostgresError::Refused(error) = error else { return None };
    let of_whom = error.as_db_error()?.message().strip_prefix("too many connections for ")?;
    let (kind, name) = of_whom.split_once(" \"")?;
    let name = name.strip_suffix('"')?.to_owned();
    let holder = match kind {
        "role" => Holder { role: Some(name), database: None },
        "database" => Holder { role: None, database: Some(name) },
        _ => return None,
    };
    Some(holder.alter())
}

pub(super) fn code(error: &PostgresError) -> Option<&SqlState> {
    match error {
        PostgresError::Refused(error) => error.code(),
        _ => None,
    }
}

/// Recognizes an unknown role. The error code is the same as for a rejected address, so the English
/// message is parsed.
fn no_such_role(reason: &str, user: Option<&str>) -> Option<(MissingReason, Option<String>)> {
    if !(reason.contains("role \"") && reason.contains("\" does not exist (SQLSTATE 28000)")) {
        return None;
    }
    Some(match user.map(identifier) {
        Some(user) => {
            let line = format!("CREATE ROLE {user} LOGIN; GRANT pg_monitor TO {user};");
            (MissingReason::NotAllowed, Some(line))
        }
        // Without a user name, libpq uses the operating system's.
        None => (
            MissingReason::Login,
            Some("put the user in the address: postgres://weir@..".to_owned()),
        ),
    })
}

fn obstacle(code: &SqlState, user: Option<&str>) -> (MissingReason, Option<String>) {
    let (obstacle, remedy) = match code.code() {
        "53300" => (MissingReason::SlotsExhausted, None),
        "42501" => {
            let user = identifier(user.unwrap_or(SOMEBODY));
            return (MissingReason::NotAllowed, Some(format!("GRANT pg_monitor TO {user};")));
        }
        "28000" => (
            MissingReason::NotAllowed,
            Some("a line in pg_hba.conf for this user and address; with TLS: ?sslmode=verify-full"),
        ),
        "28P01" => (
            MissingReason::Login,
            Some(
                "check the user in the address, and the password (--postgres-password-env, \
                 --postgres-password-file)",
            ),
        ),
        "3D000" => (MissingReason::Login, Some("use the application's database in the address")),
        // It is starting up or shutting down.
        "57P01" | "57P02" | "57P03" => {
            (MissingReason::Unreachable, Some("wait until it accepts connections: see its log"))
        }
        // This version has no such table, column or function.
        "42P01" | "42703" | "42883" => (MissingReason::NotSupported, None),
        _ => (MissingReason::Unreachable, None),
    };
    (obstacle, remedy.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_names_who_asks_as_sql_reads_it() {
        let of = |user| obstacle(&SqlState::INSUFFICIENT_PRIVILEGE, Some(user)).1.unwrap();
        assert_eq!(of("weir"), r#"GRANT pg_monitor TO "weir";"#);
        assert_eq!(of("user"), r#"GRANT pg_monitor TO "user";"#, "a word of SQL");
        assert_eq!(of("o\"x; DROP"), r#"GRANT pg_monitor TO "o""x; DROP";"#);
    }

    #[test]
    fn refusals_are_told_apart() {
        let of = |code| obstacle(&SqlState::from_code(code), None).0;
        assert_eq!(of("53300"), MissingReason::SlotsExhausted);
        assert_eq!(of("42501"), MissingReason::NotAllowed);
        assert_eq!(of("42883"), MissingReason::NotSupported);
        assert_eq!(of("57P03"), MissingReason::Unreachable, "it is starting up");
        let late = missing("its sessions", None, &PostgresError::Deadline(Duration::from_secs(5)));
        assert_eq!(late.obstacle, MissingReason::Unreachable);
    }

    #[test]
    fn a_role_that_is_not_there_is_no_matter_of_addresses() {
        let told = |reason: &str, user| no_such_role(reason, user);
        let reason = "FATAL: role \"weir\" does not exist (SQLSTATE 28000)";
        let (obstacle, remedy) = told(reason, Some("weir")).unwrap();
        assert_eq!(obstacle, MissingReason::NotAllowed);
        let expected = r#"CREATE ROLE "weir" LOGIN; GRANT pg_monitor TO "weir";"#;
        assert_eq!(remedy.as_deref(), Some(expected));
        let (obstacle, remedy) = told(reason, None).unwrap();
        assert!(obstacle == MissingReason::Login && remedy.unwrap().contains("postgres://weir@"));
        let no_entry = "FATAL: no pg_hba.conf entry for host \"10.0.0.1\" (SQLSTATE 28000)";
        assert_eq!(told(no_entry, Some("weir")), None);
    }
}
