//! Requests to one server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_settings::Setting;

use super::connection::Connection;
use super::kept::KeptConnections;
use super::reach::Reach;
use super::response::HttpResponse;
use super::time_limit::{Deadline, ResponseLimits, TimeLimit, until};
use super::{BoxFuture, HttpError, HttpRequest, HttpUrl, Trust};

/// Where requests go.
#[derive(Clone, Debug)]
pub enum Server {
    /// A URL, at an address that is no nearer than that.
    Web {
        /// Its target is not used: each request has its own.
        url: HttpUrl,
        /// [`Reach::Special`]: anywhere.
        nearest: Reach,
    },
    /// A unix socket, with a path of any length.
    Unix(PathBuf),
}

/// What connections have in common.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Which certificates are accepted.
    pub trust: Trust,
    /// The setting that adds certificate authorities, for errors.
    pub ca: Option<&'static Setting>,
    /// Name look-up, TCP and TLS together.
    pub connect_timeout: Option<TimeLimit>,
    /// Without a byte of the response, before its head and in its body.
    pub silence_timeout: Option<TimeLimit>,
    /// From a request's first byte to the response's last.
    pub response_timeout: Option<TimeLimit>,
    /// A connection that was idle for longer is not used again.
    pub keep_alive: Duration,
    /// Idle connections that are kept.
    pub connections_kept_max: usize,
    /// Bytes of a response's head; at least 8 KiB.
    pub head_bytes_max: usize,
    /// `X-Name`, not `x-name`.
    pub has_title_case_headers: bool,
}

impl Default for ClientSettings {
    /// No time limits, one connection, public authorities.
    fn default() -> Self {
        Self {
            trust: Trust::public(),
            ca: None,
            connect_timeout: None,
            silence_timeout: None,
            response_timeout: None,
            keep_alive: Duration::MAX,
            connections_kept_max: 1,
            head_bytes_max: 64 << 10,
            has_title_case_headers: false,
        }
    }
}

impl ClientSettings {
    /// Header names in title case. Receivers should ignore the case, but some compare it: PHP's own
    /// server hands names over as they were sent, and pusher-http-php looks for `X-Pusher-Key`.
    #[must_use]
    pub fn for_webhooks() -> Self {
        Self { has_title_case_headers: true, ..Self::default() }
    }
}

/// Sends requests to one server. All tasks can share it.
#[derive(Debug)]
pub struct HttpClient {
    server: Server,
    settings: Arc<ClientSettings>,
    kept: Arc<KeptConnections>,
}

impl HttpClient {
    /// Not connected yet.
    #[must_use]
    pub fn new(server: Server, settings: Arc<ClientSettings>) -> Self {
        let kept = KeptConnections::new(settings.connections_kept_max, settings.keep_alive);
        Self { server, settings, kept: Arc::new(kept) }
    }

    /// Opens a connection, which the next request uses.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect(&self) -> BoxFuture<'_, Result<(), HttpError>> {
        Box::pin(async {
            self.kept.give_back(self.open(None).await?);
            Ok(())
        })
    }

    /// Sends a request over a kept connection or a new one, and waits for the response's head.
    ///
    /// # Errors
    /// Why there is no response. The server may have got the request all the same.
    pub fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpError>> {
        Box::pin(async {
            if let Some(kept) = self.kept.take() {
                let is_repeatable = request.is_repeatable;
                match self.exchange(kept, request.clone()).await {
                    // Servers close idle connections, also in the moment in which one is used.
                    Err(HttpError::Closed { was_sent, .. }) if is_repeatable || !was_sent => {}
                    result => return result,
                }
            }
            let fresh = self.open(request.deadline).await?;
            self.exchange(fresh, request).await
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
        let own = self.settings.response_timeout.map(TimeLimit::from_now);
        let limits = ResponseLimits {
            deadline: Deadline::first(own, request.deadline),
            silence: self.settings.silence_timeout,
        };
        let response = limits.wait(connection.send(request)).await??;
        Ok(HttpResponse::new(response, connection, Arc::clone(&self.kept), limits))
    }
}
