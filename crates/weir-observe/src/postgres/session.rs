//! A read-only session.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;

use weir_advisor::observation::Missing;

use super::connection::PostgresConnection;
use super::endpoint::PostgresEndpoint;
use super::error::PostgresError;
use super::limits::PostgresLimits;
use super::missing;

/// Time that Postgres may need to report that its own timeout has expired.
const GRACE: Duration = Duration::from_secs(1);

/// A session that closes when dropped.
#[derive(Debug)]
pub(crate) struct PostgresSession {
    connection: PostgresConnection,
    limits: PostgresLimits,
    port: u16,
    user: Option<String>,
    questions: u64,
    /// Set after a timeout. Further queries fail at once, because they would wait behind that one.
    silent_for: Option<Duration>,
}

impl PostgresSession {
    pub(super) async fn open(
        endpoint: &PostgresEndpoint,
        limits: &PostgresLimits,
    ) -> Result<Self, PostgresError> {
        let connection = PostgresConnection::open(endpoint, limits.connect_timeout).await?;
        let (port, user) = (endpoint.port(), endpoint.user().map(str::to_owned));
        let (limits, questions, silent_for) = (*limits, 0, None);
        let mut session = Self { connection, limits, port, user, questions, silent_for };
        if session.user.is_none() {
            session.user = session.current_user().await;
        }
        Ok(session)
    }

    /// Closes the session in order.
    pub(super) async fn close(self) {
        self.connection.close().await;
    }

    /// Returns the port that clients of this Postgres connect to.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the user name, if known.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Queries the user name. Without one in the URL, the library uses the operating system's.
    async fn current_user(&mut self) -> Option<String> {
        let rows = self.query("SELECT current_user AS name").await.ok()?;
        rows.first()?.get("name").map(str::to_owned)
    }

    /// Returns why a part of the data could not be read.
    pub(super) fn missing(&self, what: &str, error: &PostgresError) -> Missing {
        missing::missing(what, self.user(), error)
    }

    /// Returns the timeout after which a query failed although the server accepts clients.
    pub(super) const fn silent_for(&self) -> Option<Duration> {
        self.silent_for
    }

    /// Returns the number of queries so far.
    pub(super) const fn questions(&self) -> u64 {
        self.questions
    }

    pub(super) const fn limits(&self) -> &PostgresLimits {
        &self.limits
    }

    /// Executes a query in a read-only transaction that always ends. The query itself limits the
    /// rows.
    pub(super) async fn query(
        &mut self,
        question: &str,
    ) -> Result<Vec<SimpleQueryRow>, PostgresError> {
        if let Some(deadline) = self.silent_for {
            return Err(PostgresError::Deadline(deadline));
        }
        self.questions += 1;
        let PostgresLimits { statement_timeout, lock_timeout, .. } = self.limits;
        // SET LOCAL rather than SET, because behind a pooler another client uses the connection
        // next.
        let text = format!(
            "BEGIN READ ONLY; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
             {question}; COMMIT",
            statement_timeout.as_millis(),
            lock_timeout.as_millis()
        );
        let deadline = statement_timeout.saturating_add(GRACE);
        let answer = self.connection.query(&text, deadline).await;
        match &answer {
            Ok(_) => {}
            Err(PostgresError::Deadline(deadline)) => self.silent_for = Some(*deadline),
            // After an error, the transaction is still open.
            Err(_) => {
                let _ = self.connection.query("ROLLBACK", GRACE).await;
            }
        }
        answer
    }
}
