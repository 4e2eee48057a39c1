//! What a core does with connections: the interface to the parts above.

use std::borrow::Cow;
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::{ConnectionStream, HttpRequestHead, ResponseBody};
use crate::client::ClientRequest;

/// What a core does with connections. Made on the core's own thread, never leaves it.
pub trait ConnectionService: 'static {
    /// Whether a request to `path` whose head has an `Upgrade` field is for
    /// [`ConnectionService::upgrade`]. All others are for [`ConnectionService::http`].
    fn claims_upgrade(&self, path: &str) -> bool;

    /// Takes over the socket: judges the head, registers the connection and spawns its task
    /// (`tokio::task::spawn_local`), all without waiting.
    ///
    /// # Errors
    /// [`Upgrade::refuse`] gives an HTTP answer that is written before the connection is closed.
    fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade>;

    /// Any other request; one that counts for a client has its [`ClientRequest`] among its
    /// extensions. Every request of a keep-alive connection is routed by itself. How long a request (its body included) may take is the service's to limit.
    fn http(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ResponseBody>>;

    /// Whether an HTTP/1 client at this listener that has sent all that it will send gets its response
    /// still. Otherwise it counts as disconnected, which looks the same until something
    /// is written to it, and its request is given up.
    fn answers_half_closed(&self, listener: usize) -> bool {
        let _ = listener;
        false
    }

    /// The core's own work besides its connections, until the core's end. A panic in it ends the
    /// core, while one in a connection's task ends that connection only.
    fn run(self: Rc<Self>) -> impl Future<Output = ()> {
        std::future::ready(())
    }
}

/// A request that wants to become something else than HTTP. Nothing has been answered yet.
#[derive(Debug)]
pub struct Upgrade<'a> {
    pub head: &'a HttpRequestHead<'a>,
    /// Counts as an open connection until it is dropped, and a graceful end waits for it.
    pub stream: ConnectionStream,
    /// Bytes that the client sent behind the head.
    pub rest: &'a [u8],
    pub peer: Peer,
    /// It is one of its client's requests until it becomes a stream; the socket holds it. None: it is
    /// of no particular client.
    pub client: Option<ClientRequest>,
}

impl Upgrade<'_> {
    /// No: the client gets `status` and `text`, and the connection is closed.
    #[must_use]
    pub fn refuse(self, status: StatusCode, text: impl Into<Cow<'static, str>>) -> RejectedUpgrade {
        RejectedUpgrade { status, text: text.into(), stream: self.stream }
    }
}

/// An upgrade that the service does not want; made by [`Upgrade::refuse`].
#[derive(Debug)]
pub struct RejectedUpgrade {
    pub(super) status: StatusCode,
    pub(super) text: Cow<'static, str>,
    pub(super) stream: ConnectionStream,
}

/// The client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// None on a unix socket.
    pub address: Option<IpAddr>,
    pub is_tls: bool,
    /// Which of [`super::Start::listeners`] took the connection.
    pub listener: usize,
}
