//! One connection that only asks.

use std::fmt;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Connection, NoTls, SimpleQueryMessage, SimpleQueryRow};

use weir_advisor::observation::Missing;

use super::PostgresLimits;
use super::endpoint::PostgresEndpoint;
use super::error::{self, PostgresError};
use super::tls;

/// What Postgres may take longer than its own limit to say so.
const GRACE: Duration = Duration::from_secs(1);

/// A session; it ends with its drop.
pub(crate) struct Session {
    client: Client,
    /// Reads and writes the socket.
    driver: JoinSet<()>,
    limits: PostgresLimits,
    port: u16,
    user: Option<String>,
    questions: u64,
    /// How long nobody answered; what is asked then waits behind that.
    silent_for: Option<Duration>,
}

impl Session {
    pub(super) async fn open(
        endpoint: &PostgresEndpoint,
        limits: &PostgresLimits,
    ) -> Result<Self, PostgresError> {
        let mut config = endpoint.config();
        config.connect_timeout(limits.connect_timeout);
        let mut driver = JoinSet::new();
        let connecting = async {
            if endpoint.is_tls() {
                let (client, connection) = config.connect(tls::connector(endpoint)?).await?;
                drive(&mut driver, connection);
                Ok(client)
            } else {
                let (client, connection) = config.connect(NoTls).await?;
                drive(&mut driver, connection);
                Ok(client)
            }
        };
        // The library's own limit ends with the socket; a server that then says nothing is met here.
        let client = match tokio::time::timeout(limits.connect_timeout, connecting).await {
            Ok(client) => client,
            Err(_) => Err(PostgresError::Deadline(limits.connect_timeout)),
        }?;
        let (port, user) = (endpoint.port(), endpoint.user().map(str::to_owned));
        let (questions, silent_for) = (0, None);
        let mut session =
            Self { client, driver, limits: *limits, port, user, questions, silent_for };
        if session.user.is_none() {
            session.user = session.current_user().await;
        }
        Ok(session)
    }

    /// Says good-bye and waits until it is sent: the slot is free then, without a line in a log.
    pub(super) async fn close(self) {
        let Self { client, mut driver, .. } = self;
        drop(client);
        let _ = tokio::time::timeout(GRACE, driver.join_next()).await;
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
        let rows = self.ask("SELECT current_user AS name").await.ok()?;
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
    pub(super) async fn ask(
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
        match tokio::time::timeout(deadline, self.client.simple_query(&text)).await {
            Ok(Ok(messages)) => Ok(messages.into_iter().filter_map(row).collect()),
            Ok(Err(error)) => {
                // The transaction is over for all but this.
                let _ = tokio::time::timeout(GRACE, self.client.simple_query("ROLLBACK")).await;
                Err(error.into())
            }
            Err(_) => {
                self.silent_for = Some(deadline);
                Err(PostgresError::Deadline(deadline))
            }
        }
    }
}

fn row(message: SimpleQueryMessage) -> Option<SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}

fn drive<S, T>(driver: &mut JoinSet<()>, connection: Connection<S, T>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    driver.spawn(async move {
        // What breaks it is told to whoever waits for an answer.
        let _ = connection.await;
    });
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("port", &self.port).finish_non_exhaustive()
    }
}
