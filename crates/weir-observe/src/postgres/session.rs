//! One connection that only asks.

use std::time::Duration;

use tokio_postgres::SimpleQueryRow;

use weir_advisor::observation::Missing;

use super::PostgresLimits;
use super::connection::PostgresConnection;
use super::endpoint::PostgresEndpoint;
use super::error::{self, PostgresError};

/// What Postgres may take longer than its own limit to say so.
const GRACE: Duration = Duration::from_secs(1);

/// A session; it ends with its drop.
#[derive(Debug)]
pub(crate) struct PostgresSession {
    connection: PostgresConnection,
    limits: PostgresLimits,
    port: u16,
    user: Option<String>,
    questions: u64,
    /// How long nobody answered; what is asked then waits behind that.
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

    /// Says good-bye.
    pub(super) async fn close(self) {
        self.connection.close().await;
    }

    /// The port that clients of this Postgres connect to.
    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Who asks, if it is known.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// An address without a user takes this system's, as the library does.
    async fn current_user(&mut self) -> Option<String> {
        let rows = self.query("SELECT current_user AS name").await.ok()?;
        rows.first()?.get("name").map(str::to_owned)
    }

    /// A part that it would not tell.
    pub(super) fn missing(&self, what: &str, error: &PostgresError) -> Missing {
        error::missing(what, self.user(), error)
    }

    /// It lets clients in, and one of its questions had no answer for so long.
    pub(super) const fn silent_for(&self) -> Option<Duration> {
        self.silent_for
    }

    /// Asked up to now.
    pub(super) const fn questions(&self) -> u64 {
        self.questions
    }

    pub(super) const fn limits(&self) -> &PostgresLimits {
        &self.limits
    }

    /// One question, in a read-only transaction that ends whatever it answers. Rows are as many as
    /// the question itself allows.
    pub(super) async fn query(
        &mut self,
        question: &str,
    ) -> Result<Vec<SimpleQueryRow>, PostgresError> {
        if let Some(deadline) = self.silent_for {
            return Err(PostgresError::Deadline(deadline));
        }
        self.questions += 1;
        let PostgresLimits { statement_timeout, lock_timeout, .. } = self.limits;
        // SET LOCAL, not SET: behind a pooler the connection is somebody else's a moment later.
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
            // The transaction is over for all but this.
            Err(_) => {
                let _ = self.connection.query("ROLLBACK", GRACE).await;
            }
        }
        answer
    }
}
