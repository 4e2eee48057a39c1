//! From an upgrade request to a connection.

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
use super::close_reason::say_code;
use super::state::ShardState;
use crate::app::{App, ConnectionPlace, NoPlace};
use crate::cores::{self, SessionKey};
use crate::frame::append_text;
use crate::metrics::LimitKind;
use crate::pusher::close_code::CloseCode;
use crate::pusher::server_message;
use crate::pusher::socket_id::SocketId;
use crate::session::{ClientSession, Transport};
use crate::websocket::handshake::{self, HandshakeError, RequestHead};

/// What all paths of connections begin with; the app's key follows.
pub(crate) const PATH: &str = "/app/";
/// The versions of Pusher's protocol that are spoken. To a client, 5 and 6 differ from 7 in that no
/// `activity_timeout` was there to be read; Java's and .NET's libraries ask for 5, pysher for 6.
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
    /// Takes over a socket whose request asks for a WebSocket.
    ///
    /// # Errors
    /// The request is not one that opens a WebSocket, or not from here: an HTTP answer says so.
    /// What Pusher's protocol has a code for is said on the WebSocket, where clients read it.
    pub fn connect(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade> {
        let head = UpgradeHead(upgrade.head);
        let mut output = Vec::new();
        let origin = match handshake::accept(&head, &[]) {
            Ok(accepted) => {
                accepted.write_response(&mut output);
                accepted.origin
            }
            Err(refusal) => return Err(refuse(upgrade, refusal)),
        };
        let (app, place) = match self.enter(upgrade.head, upgrade.peer) {
            Ok(entered) => entered,
            Err(code) => {
                self.turn_away(upgrade.stream, output, code, code.reason());
                return Ok(());
            }
        };
        if !is_origin_allowed(&app, origin) {
            return Err(refuse(upgrade, HandshakeError::OriginNotAllowed));
        }
        match upgrade.client.as_ref().map(ClientRequest::become_stream) {
            Some(Err(ClientFull(used))) => {
                let code = CloseCode::OverCapacity;
                self.turn_away(upgrade.stream, output, code, used.reason());
            }
            _ => self.open_session(app, place, upgrade.stream, upgrade.rest, output),
        }
        Ok(())
    }

    /// Says on the WebSocket why it becomes no connection. `output` holds the handshake's answer.
    fn turn_away(
        &self,
        stream: ConnectionStream,
        mut output: Vec<u8>,
        code: CloseCode,
        reason: &str,
    ) {
        say_code(&mut output, code, reason);
        self.say_goodbye(stream, output);
    }

    /// The app, and a place among its connections.
    fn enter(
        &self,
        head: &HttpRequestHead<'_>,
        peer: Peer,
    ) -> Result<(Arc<App>, ConnectionPlace), CloseCode> {
        let key = head.path().strip_prefix(PATH).filter(|key| !key.is_empty());
        let key = key.ok_or(CloseCode::PathNotFound)?;
        check_protocol(head.query().unwrap_or_default())?;
        self.enter_app(key, peer)
    }

    /// The app with this key, and a place among its connections, if it takes any.
    pub(crate) fn enter_app(
        &self,
        key: &str,
        peer: Peer,
    ) -> Result<(Arc<App>, ConnectionPlace), CloseCode> {
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
        let place = app.connect(total_max).map_err(|no_place| {
            let (limit, code) = match no_place {
                NoPlace::App => (LimitKind::Connections, CloseCode::OverConnectionQuota),
                NoPlace::Total => (LimitKind::ConnectionsTotal, CloseCode::OverCapacity),
            };
            self.hub.metrics.limit_hit(limit);
            code
        })?;
        Ok((Arc::clone(&app), place))
    }

    /// Registers the connection and tells it its id. `output` holds the handshake's answer.
    fn open_session(
        self: &Rc<Self>,
        app: Arc<App>,
        place: ConnectionPlace,
        stream: ConnectionStream,
        rest: &[u8],
        mut output: Vec<u8>,
    ) {
        bound_unsent(&stream, self.hub.settings().limits.unsent_bytes_max);
        let state = &mut *self.state.borrow_mut();
        let (key, socket_id) = self.register(state, app, place, Transport::Socket(stream));
        let timeout = self.activity_timeout();
        append_text(&mut output, |out| {
            server_message::connection_established(out, socket_id, timeout);
        });
        self.spawn(socket_id);
        self.send(state, key, &output);
        self.read_rest(state, key, rest);
    }

    /// A new connection, with an id.
    pub(super) fn register(
        &self,
        state: &mut ShardState,
        app: Arc<App>,
        place: ConnectionPlace,
        transport: Transport,
    ) -> (SessionKey, SocketId) {
        let vacant = state.sessions.vacant_entry();
        let key = SessionKey::try_from(vacant.key()).expect("fewer connections than descriptors");
        let socket_id = cores::socket_id(self.index, key);
        let now = self.hub.clock.now();
        vacant.insert(Box::new(ClientSession::new(socket_id, app, place, transport, now)));
        self.hub.metrics.opened();
        self.hub.cores.get(self.index).connections.fetch_add(1, Ordering::Relaxed);
        (key, socket_id)
    }

    /// What the client has sent behind its request, before it was answered; or what had to wait.
    pub(super) fn read_rest(&self, state: &mut ShardState, key: SessionKey, mut rest: &[u8]) {
        while !rest.is_empty() && state.sessions.contains(key as usize) {
            let session = state.session(key);
            if session.postponed.is_some() || !session.unheard.is_empty() {
                return session.unheard.extend_from_slice(rest);
            }
            let bytes = rest.len().min(state.input.len());
            state.input[..bytes].copy_from_slice(&rest[..bytes]);
            rest = &rest[bytes..];
            self.on_input(state, key, bytes);
        }
    }

    /// A little less or more than the setting: clients that came together don't ping together.
    fn activity_timeout(&self) -> Duration {
        let settings = self.hub.settings();
        let jitter = settings.activity_jitter_thousandths.min(999);
        let thousandths = fastrand::u32(1_000 - jitter..=1_000 + jitter);
        settings.activity_timeout.saturating_mul(thousandths) / 1_000
    }

    /// Writes the last words to a socket that never becomes a connection, and lets the client read
    /// them: closing at once could take them back.
    fn say_goodbye(&self, stream: ConnectionStream, words: Vec<u8>) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let timeout = self.hub.settings().limits.close_timeout;
        let mut stream = stream;
        let goodbye = async move {
            stream.write_all(&words).await?;
            AsyncWriteExt::shutdown(&mut stream).await?;
            let mut rest = [0; 256];
            while stream.read(&mut rest).await? > 0 {}
            std::io::Result::Ok(())
        };
        // Whether the client reads it is its own affair.
        tokio::task::spawn_local(async move {
            let _ = tokio::time::timeout(timeout, goodbye).await;
        });
    }
}

/// The kernel would take megabytes for a client that does not read. A unix socket has a bound of its
/// own; there the option is not known, and that is fine.
fn bound_unsent(stream: &ConnectionStream, bytes_max: u32) {
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(bytes_max);
}

/// `protocol=7&client=..&version=..`, of which only the first matters.
fn check_protocol(query: &str) -> Result<(), CloseCode> {
    let protocol = parse(query.as_bytes()).find(|(name, _)| name == "protocol");
    let Some((_, version)) = protocol else { return Err(CloseCode::NoProtocol) };
    match version.parse() {
        Ok(version) if PROTOCOLS.contains(&version) => Ok(()),
        Ok(_) => Err(CloseCode::UnsupportedProtocol),
        Err(_) => Err(CloseCode::InvalidVersion),
    }
}

/// Only browsers send an origin; whoever else can send what they like.
pub(crate) fn is_origin_allowed(app: &App, origin: Option<&str>) -> bool {
    let settings = app.settings();
    match origin {
        Some(origin) if !settings.origins.is_empty() => {
            settings.origins.iter().any(|pattern| pattern.matches(origin))
        }
        _ => true,
    }
}

fn refuse(upgrade: Upgrade<'_>, refusal: HandshakeError) -> RejectedUpgrade {
    let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::BAD_REQUEST);
    upgrade.refuse(status, refusal.to_string())
}
