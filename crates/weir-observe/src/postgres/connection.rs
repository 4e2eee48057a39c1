//! A connection with the simple protocol, to Postgres or a compatible server.

use std::fmt;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

use super::endpoint::PostgresEndpoint;
use super::error::PostgresError;
use super::tls;

/// Timeout for closing the connection.
const GOODBYE: Duration = Duration::from_secs(1);

/// A connection that closes when dropped.
pub(crate) struct PostgresConnection {
    client: Client,
    /// The task that reads and writes the socket.
    driver: JoinSet<()>,
}

impl PostgresConnection {
    pub(crate) async fn open(
        endpoint: &PostgresEndpoint,
        timeout: Duration,
    ) -> Result<Self, PostgresError> {
        let mut config = endpoint.config();
        config.connect_timeout(timeout);
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
        // The library's timeout covers only the socket, not a server that accepts and does not
        // respond.
        let client = match tokio::time::timeout(timeout, connecting).await {
            Ok(client) => client,
            Err(_) => Err(PostgresError::Deadline(timeout)),
        }?;
        Ok(Self { client, driver })
    }

    /// Executes `text` and returns the rows of all its statements.
    pub(crate) async fn query(
        &self,
        text: &str,
        deadline: Duration,
    ) -> Result<Vec<SimpleQueryRow>, PostgresError> {
        match tokio::time::timeout(deadline, self.client.simple_query(text)).await {
            Ok(messages) => Ok(messages?.into_iter().filter_map(row).collect()),
            Err(_) => Err(PostgresError::Deadline(deadline)),
        }
    }

    /// Closes the connection and waits until the server is notified, which frees the slot without a
    /// log entry.
    pub(crate) async fn close(self) {
        let Self { client, mut driver } = self;
        drop(client);
        let _ = tokio::time::timeout(GOODBYE, driver.join_next()).await;
    }
}

fn row(message: SimpleQueryMessage) -> Option<SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}

fn drive<S, T>(driver: &mut JoinSet<()>, connection: tokio_postgres::Connection<S, T>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    driver.spawn(async move {
        // Pending queries receive the error.
        let _ = connection.await;
    });
}

impl fmt::Debug for PostgresConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PostgresConnection").finish_non_exhaustive()
    }
}
