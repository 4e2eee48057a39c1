//! Sends requests to one server over pooled connections.

use std::sync::Arc;

use super::connection::Connection;
use super::pool::ConnectionPool;
use super::response::HttpResponse;
use super::settings::{ClientSettings, Server};
use super::time_limit::{Deadline, ResponseLimits, TimeLimit, until};
use super::{BoxFuture, HttpError, HttpRequest};

/// A client for one server. Tasks can share it.
#[derive(Debug)]
pub struct HttpClient {
    server: Server,
    settings: Arc<ClientSettings>,
    pool: Arc<ConnectionPool>,
}

impl HttpClient {
    /// Creates a client without connecting.
    #[must_use]
    pub fn new(server: Server, settings: Arc<ClientSettings>) -> Self {
        let pool = ConnectionPool::new(settings.connections_kept_max, settings.keep_alive);
        Self { server, settings, pool: Arc::new(pool) }
    }

    /// Opens a connection for the next request.
    ///
    /// # Errors
    /// Fails if the server cannot be reached.
    pub fn connect(&self) -> BoxFuture<'_, Result<(), HttpError>> {
        Box::pin(async {
            self.pool.put_back(self.open(None).await?);
            Ok(())
        })
    }

    /// Sends a request over an idle connection or a new one, and waits for the response's head.
    ///
    /// # Errors
    /// Fails if there is no response. The server may have received the request all the same.
    pub fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpError>> {
        Box::pin(async {
            if let Some(idle) = self.pool.take() {
                let is_repeatable = request.is_repeatable;
                match self.exchange(idle, request.clone()).await {
                    // The server may have closed the idle connection just before it was used.
                    Err(HttpError::Closed { was_sent, .. }) if is_repeatable || !was_sent => {}
                    result => return result,
                }
            }
            let opened = self.open(request.deadline).await?;
            self.exchange(opened, request).await
        })
    }

    async fn open(&self, deadline: Option<Deadline>) -> Result<Connection, HttpError> {
        let limit = self.settings.connect_timeout.map(TimeLimit::from_now);
        let opened = Connection::open(&self.server, &self.settings);
        let opened = until(Deadline::first(limit, deadline), opened).await;
        opened.map_err(HttpError::ConnectTimedOut)?
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        request: HttpRequest,
    ) -> Result<HttpResponse, HttpError> {
        let response_limit = self.settings.response_timeout.map(TimeLimit::from_now);
        let limits = ResponseLimits {
            deadline: Deadline::first(response_limit, request.deadline),
            silence: self.settings.silence_timeout,
        };
        let response = limits.wait(connection.send(request)).await??;
        Ok(HttpResponse::new(response, connection, Arc::clone(&self.pool), limits))
    }
}
