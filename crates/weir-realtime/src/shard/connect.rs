//! Turns an upgrade request into a connection.

use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use form_urlencoded::parse;
use hyper::StatusCode;
use weir_net::client::{ClientFull, ClientRequest};
use weir_net::server::{ConnectionStream, HttpRequestHead, Peer, RejectedUpgrade, Upgrade};

use super::Shard;
use super::close_reason::write_close;
use super::state::ShardState;
use crate::app::{App, ConnectionQuota};
use crate::connection_share::QuotaExceeded;
use crate::cores::{self, SessionKey};
use crate::frame::append_text;
use crate::metrics::LimitKind;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message;
use crate::pusher::socket_id::SocketId;
use crate::session::{ClientSession, Transport};
use crate::websocket::handshake::{self, HandshakeError, RequestHead};

/// The prefix of the paths of connections. The app's key follows it.
pub(crate) const PATH: &str = "/app/";
/// The supported versions of the Pusher protocol. For clients, 5 and 6 differ from 7 only in
/// lacking `activity_timeout`. The libraries for Java and .NET request 5, pysher requests 6.
const PROTOCOLS: RangeInclusive<u32> = 5..=7;

struct UpgradeHead<'a>(&'a HttpRequestHead<'a>);

impl RequestHead for UpgradeHead<'_> {
    fn method(&self) -> &str {
        self.0.method
    }

    fn http_minor_version(&self) -> u8 {
        self.0.version
    }

    fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.values(name)
    }
}

impl Shard {
    /// Takes over the socket of a request that asks for a WebSocket.
    ///
    /// # Errors
    /// Returns the HTTP response if the request does not open a WebSocket, or its origin is not
    /// allowed. Errors with a code of the Pusher protocol are sent over the WebSocket instead,
    /// where clients read them.
    pub fn connect(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        let head = UpgradeHead(upgrade.head);
        let mut output = Vec::new();
        let origin = match handshake::accept(&head, &[]) {
            Ok(accepted) => {
                accepted.write_response(&mut output);
                accepted.origin
            }
            Err(error) => return Err(reject(upgrade, error)),
        };
        let (app, quota) = match self.admit(upgrade.head, upgrade.peer) {
            Ok(admitted) => admitted,
            Err(code) => {
                self.reject_with_close(upgrade.stream, output, code, code.reason());
                return Ok(());
            }
        };
        if !is_origin_allowed(&app, origin) {
            return Err(reject(upgrade, HandshakeError::OriginNotAllowed));
        }
        match upgrade.client.as_ref().map(ClientRequest::become_stream) {
            Some(Err(ClientFull(used))) => {
                let code = CloseCode::OverCapacity;
                self.reject_with_close(upgrade.stream, output, code, used.reason());
            }
            _ => self.open_session(app, quota, upgrade.stream, upgrade.rest, output),
        }
        Ok(())
    }

    /// Completes the handshake and closes the WebSocket with `code`. `output` holds the handshake's
    /// response.
    fn reject_with_close(
        &self,
        stream: ConnectionStream,
        mut output: Vec<u8>,
        code: CloseCode,
        reason: &str,
    ) {
        write_close(&mut output, code, reason);
        self.send_and_close(stream, output);
    }

    /// Returns the app of the request's path, and counts the new connection towards its limits.
    fn admit(
        &self,
        head: &HttpRequestHead<'_>,
        peer: Peer,
    ) -> Result<(Arc<App>, ConnectionQuota), CloseCode> {
        let key = head.path().strip_prefix(PATH).filter(|key| !key.is_empty());
        let key = key.ok_or(CloseCode::PathNotFound)?;
        check_protocol(head.query().unwrap_or_default())?;
        self.admit_to_app(key, peer)
    }

    /// Returns the app with this key, and counts the new connection towards its limits. Returns the
    /// close code if the app accepts no connection.
    pub(crate) fn admit_to_app(
        &self,
        key: &str,
        peer: Peer,
    ) -> Result<(Arc<App>, ConnectionQuota), CloseCode> {
        let app = self.hub.app_by_key(key).ok_or(CloseCode::NoSuchApp)?;
        let settings = app.settings();
        if !settings.is_enabled {
            return Err(CloseCode::AppDisabled);
        }
        if settings.requires_tls && !peer.is_tls {
            return Err(CloseCode::TlsOnly);
        }
        if self.draining.is_cancelled() {
            return Err(CloseCode::OverCapacity);
        }
        let total_max = self.hub.settings().limits.connections_total_max;
        let admitted = app.connect(total_max);
        if let Some(log) = &self.hub.broker.log
            && app.needs_more_connections()
        {
            log.request_connections();
        }
        let quota = admitted.map_err(|exceeded| {
            let (limit, code) = match exceeded {
                QuotaExceeded::App => (LimitKind::Connections, CloseCode::OverConnectionQuota),
                // The client may return: this node's part grows, or another node has room.
                QuotaExceeded::Share => (LimitKind::Connections, CloseCode::OverCapacity),
                QuotaExceeded::Total => (LimitKind::ConnectionsTotal, CloseCode::OverCapacity),
            };
            self.hub.metrics.limit_hit(limit);
            code
        })?;
        Ok((Arc::clone(&app), quota))
    }

    /// Registers the connection and sends its id to the client. `output` holds the handshake's
    /// response.
    fn open_session(
        self: &Rc<Self>,
        app: Arc<App>,
        quota: ConnectionQuota,
        stream: ConnectionStream,
        rest: &[u8],
        mut output: Vec<u8>,
    ) {
        bound_unsent(&stream, self.hub.settings().limits.unsent_bytes_max);
        let state = &mut *self.state.borrow_mut();
        let (key, socket_id) = self.register(state, app, quota, Transport::Socket(stream));
        let timeout = self.activity_timeout();
        append_text(&mut output, |out| {
            server_message::connection_established(out, socket_id, timeout);
        });
        self.spawn(socket_id);
        self.send(state, key, &output);
        self.read_rest(state, key, rest);
    }

    /// Adds a connection and gives it an id.
    pub(super) fn register(
        &self,
        state: &mut ShardState,
        app: Arc<App>,
        quota: ConnectionQuota,
        transport: Transport,
    ) -> (SessionKey, SocketId) {
        let vacant = state.sessions.vacant_entry();
        let key = SessionKey::try_from(vacant.key()).expect("fewer connections than descriptors");
        let socket_id = cores::socket_id(self.index, key);
        let now = self.hub.clock.now();
        vacant.insert(Box::new(ClientSession::new(socket_id, app, quota, transport, now)));
        self.hub.metrics.opened();
        self.hub.cores.get(self.index).connections.fetch_add(1, Ordering::Relaxed);
        (key, socket_id)
    }

    /// Processes bytes that arrived before the handshake's response was sent, or that had to wait.
    pub(super) fn read_rest(&self, state: &mut ShardState, key: SessionKey, mut rest: &[u8]) {
        while !rest.is_empty() && state.sessions.contains(key as usize) {
            let session = state.session(key);
            if session.postponed.is_some() || !session.unprocessed.is_empty() {
                return session.unprocessed.extend_from_slice(rest);
            }
            let bytes = rest.len().min(state.input.len());
            state.input[..bytes].copy_from_slice(&rest[..bytes]);
            rest = &rest[bytes..];
            self.on_input(state, key, bytes);
        }
    }

    /// Returns the activity timeout with random jitter, so that clients that connected together
    /// don't ping together.
    fn activity_timeout(&self) -> Duration {
        let settings = self.hub.settings();
        let jitter = settings.activity_jitter_thousandths.min(999);
        let thousandths = fastrand::u32(1_000 - jitter..=1_000 + jitter);
        settings.activity_timeout.saturating_mul(thousandths) / 1_000
    }

    /// Writes the final messages to a socket that never becomes a connection, then waits until the
    /// client closes: closing at once could discard them.
    fn send_and_close(&self, stream: ConnectionStream, bytes: Vec<u8>) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let timeout = self.hub.settings().limits.close_timeout;
        let mut stream = stream;
        let goodbye = async move {
            stream.write_all(&bytes).await?;
            AsyncWriteExt::shutdown(&mut stream).await?;
            let mut rest = [0; 256];
            while stream.read(&mut rest).await? > 0 {}
            std::io::Result::Ok(())
        };
        // It does not matter whether the client reads the messages.
        tokio::task::spawn_local(async move {
            let _ = tokio::time::timeout(timeout, goodbye).await;
        });
    }
}

/// Limits the unsent bytes in the kernel, which would otherwise buffer megabytes for a client that
/// does not read. Unix sockets have their own limit and don't support the option, so its error is
/// ignored.
fn bound_unsent(stream: &ConnectionStream, bytes_max: u32) {
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(bytes_max);
}

/// Checks the query `protocol=7&client=..&version=..`, of which only `protocol` matters.
fn check_protocol(query: &str) -> Result<(), CloseCode> {
    let protocol = parse(query.as_bytes()).find(|(name, _)| name == "protocol");
    let Some((_, version)) = protocol else { return Err(CloseCode::NoProtocol) };
    match version.parse() {
        Ok(version) if PROTOCOLS.contains(&version) => Ok(()),
        Ok(_) => Err(CloseCode::UnsupportedProtocol),
        Err(_) => Err(CloseCode::InvalidVersion),
    }
}

/// Returns whether the app allows this origin. Requests without one are allowed: only browsers send
/// it, and other clients can send any value.
pub(crate) fn is_origin_allowed(app: &App, origin: Option<&str>) -> bool {
    let settings = app.settings();
    match origin {
        Some(origin) if !settings.origins.is_empty() => {
            settings.origins.iter().any(|pattern| pattern.matches(origin))
        }
        _ => true,
    }
}

fn reject(upgrade: Upgrade<'_>, error: HandshakeError) -> RejectedUpgrade {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
    upgrade.reject(status, error.to_string())
}
