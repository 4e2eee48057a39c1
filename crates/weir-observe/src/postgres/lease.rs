//! A lease that one process of many holds: a row whose time is over unless its holder renews it.
//!
//! It is the only thing here that is written to a database. Each request is one transaction, so that it works through a
//! pooler that reassigns its connections after each one. An advisory lock would not: of a session, it would stay on a
//! connection of the pooler; of a transaction, it would keep a transaction open. Neither ends while the network between
//! them is away.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;
use tokio_postgres::error::SqlState;
use weir_advisor::sql::identifier;

use super::connection::PostgresConnection;
use super::error::PostgresError;
use super::{PostgresSource, missing};

/// Made in a schema of its own, so that no application takes it for a table of its own.
const CREATE: &str = "CREATE SCHEMA IF NOT EXISTS weir; \
    CREATE TABLE IF NOT EXISTS weir.leases (name text PRIMARY KEY, token text NOT NULL, holder text NOT NULL, \
    expires_at timestamptz NOT NULL);";
/// The clock of the server decides. The holder of an expired lease may be another one.
const TAKE: &str = "INSERT INTO weir.leases AS lease (name, token, holder, expires_at) \
    VALUES ('$NAME', '$TOKEN', '$HOLDER', clock_timestamp() + interval '$MS milliseconds') \
    ON CONFLICT (name) DO UPDATE SET token = excluded.token, holder = excluded.holder, \
    expires_at = excluded.expires_at \
    WHERE lease.token = excluded.token OR lease.expires_at <= clock_timestamp(); \
    SELECT token, holder \
    FROM weir.leases WHERE name = '$NAME'";
const RELEASE: &str = "UPDATE weir.leases SET expires_at = clock_timestamp() \
    WHERE name = '$NAME' AND token = '$TOKEN'";
/// Time that Postgres may need to report that its own timeout has expired.
const GRACE: Duration = Duration::from_secs(1);

/// A lease in a Postgres.
#[derive(Debug)]
pub struct PostgresLease {
    source: PostgresSource,
    name: &'static str,
    connection: Option<PostgresConnection>,
}

/// Who takes a lease. None of these has quotes or backslashes.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRow<'a> {
    /// A number that no other process has.
    pub token: &'a str,
    /// The holder for people.
    pub holder: &'a str,
    /// The time of the lease from now on.
    pub lifetime: Duration,
}

/// The lease in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRowInForce {
    /// The token of its holder.
    pub token: String,
    /// The holder for people.
    pub holder: String,
}

impl PostgresLease {
    /// Creates a lease of this name, without connecting.
    #[must_use]
    pub fn new(source: PostgresSource, name: &'static str) -> Self {
        Self { source, name, connection: None }
    }

    /// Returns where it is, for people.
    #[must_use]
    pub fn place(&self) -> String {
        format!("Postgres {}", self.source.endpoint)
    }

    /// Takes the lease if it is free or over, renews it if it has this token, and returns which one is in force. If the
    /// future is dropped, the connection is closed.
    ///
    /// # Errors
    /// The database cannot be reached, or its user may not write the lease; with the remedy.
    pub async fn take(&mut self, row: &LeaseRow<'_>) -> Result<LeaseRowInForce, String> {
        let take = self.statement(TAKE, row);
        let rows = match self.run(&take).await {
            Err(error) if is_missing(&error) => {
                self.run(CREATE).await.map_err(|error| self.explain(&error))?;
                self.run(&take).await
            }
            rows => rows,
        };
        let rows = rows.map_err(|error| self.explain(&error))?;
        rows.last().and_then(in_force).ok_or_else(|| {
            "the table weir.leases has no row of the lease after it was written".to_owned()
        })
    }

    /// Ends the lease if it has this token, and closes the connection.
    ///
    /// # Errors
    /// As [`take`](Self::take). It ends by itself then.
    pub async fn release(&mut self, row: &LeaseRow<'_>) -> Result<(), String> {
        if self.connection.is_none() {
            // It is not held.
            return Ok(());
        }
        let released = self.run(&self.statement(RELEASE, row)).await;
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
        released.map(drop).map_err(|error| self.explain(&error))
    }

    fn statement(&self, text: &str, row: &LeaseRow<'_>) -> String {
        let is_plain = |letter: char| !"'\\$".contains(letter) && !letter.is_control();
        let plain =
            |text: &str| text.chars().filter(|letter| is_plain(*letter)).collect::<String>();
        let milliseconds = row.lifetime.as_millis().to_string();
        let text = text.replace("$NAME", self.name).replace("$MS", &milliseconds);
        text.replace("$TOKEN", &plain(row.token)).replace("$HOLDER", &plain(row.holder))
    }

    /// Runs statements in one transaction. After an error the next one has another connection.
    async fn run(&mut self, statements: &str) -> Result<Vec<SimpleQueryRow>, PostgresError> {
        let PostgresSource { endpoint, limits, .. } = &self.source;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => PostgresConnection::open(endpoint, limits.connect_timeout).await?,
        };
        let text = format!(
            "BEGIN; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; {statements}; COMMIT",
            limits.statement_timeout.as_millis(),
            limits.lock_timeout.as_millis()
        );
        let within = limits.statement_timeout.saturating_add(GRACE);
        let rows = connection.query(&text, within).await?;
        self.connection = Some(connection);
        Ok(rows)
    }

    fn explain(&self, error: &PostgresError) -> String {
        let endpoint = &self.source.endpoint;
        let missing = missing::unreachable(endpoint, error);
        let remedy = match error.code() {
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
                let user = identifier(endpoint.user().unwrap_or("USER"));
                Some(format!(
                    "as its owner: {CREATE} GRANT USAGE ON SCHEMA weir TO {user}; \
                     GRANT SELECT, INSERT, UPDATE ON weir.leases TO {user};"
                ))
            }
            Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Some(
                "a lease needs the primary (observe.postgres.url), or a Redis ([[observe.redis]])"
                    .to_owned(),
            ),
            _ => missing.remedy,
        };
        match remedy {
            Some(remedy) => format!("{} ({remedy})", missing.reason),
            None => missing.reason,
        }
    }
}

/// Returns whether there is no table yet, or no schema.
fn is_missing(error: &PostgresError) -> bool {
    error.code().is_some_and(|code| {
        *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME
    })
}

fn in_force(row: &SimpleQueryRow) -> Option<LeaseRowInForce> {
    Some(LeaseRowInForce {
        token: row.get("token")?.to_owned(),
        holder: row.get("holder")?.to_owned(),
    })
}
