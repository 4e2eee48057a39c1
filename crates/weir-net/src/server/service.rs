//! The interface between connections and the services above.

use std::borrow::Cow;
use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};

use super::{ConnectionStream, HttpRequestHead, ResponseBody};
use crate::client::ClientRequest;

/// Serves the connections of one core. Created on the core's thread, which it never leaves.
pub trait ConnectionService: 'static {
    /// Returns whether a request to `path` with an `Upgrade` field goes to
    /// [`ConnectionService::upgrade`]. All others go to [`ConnectionService::http`].
    fn claims_upgrade(&self, path: &str) -> bool;

    /// Takes over the socket of a request for an upgrade: checks the head, registers the connection
    /// and spawns its task (`tokio::task::spawn_local`), all without waiting.
    ///
    /// # Errors
    /// To reject the upgrade, return [`Upgrade::reject`]: its response is written before the
    /// connection is closed.
    fn upgrade(self: &Rc<Self>, upgrade: Upgrade<'_>) -> Result<(), RejectedUpgrade>;

    /// Responds to any other request; each request of a keep-alive connection is a call of its own.
    /// If the request counts against a client's limits, its extensions hold the [`ClientRequest`].
    /// The service limits how long a request, including its body, may take.
    fn http(
        self: Rc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<ResponseBody>>;

    /// Returns whether an HTTP/1 client that has shut down its sending side still gets its response
    /// at this listener. Otherwise it counts as disconnected, which looks the same until something
    /// is written to it, and its request is dropped.
    fn answers_half_closed(&self, listener: usize) -> bool {
        let _ = listener;
        false
    }

    /// Runs the core's own work besides its connections, until the core ends. A panic here ends the
    /// core, while a panic in a connection's task ends that connection only.
    fn run(self: Rc<Self>) -> impl Future<Output = ()> {
        std::future::ready(())
    }
}

/// A request for an upgrade to which no response was sent yet.
#[derive(Debug)]
pub struct Upgrade<'a> {
    pub head: &'a HttpRequestHead<'a>,
    /// Counts as an open connection until it is dropped; a graceful shutdown waits for it.
    pub stream: ConnectionStream,
    /// Bytes that the client sent behind the head.
    pub rest: &'a [u8],
    pub peer: Peer,
    /// Counts as a request of its client until it becomes a stream. None: no particular client.
    pub client: Option<ClientRequest>,
}

impl Upgrade<'_> {
    /// Rejects the upgrade: the client gets `status` and `text`, and the connection is closed.
    #[must_use]
    pub fn reject(self, status: StatusCode, text: impl Into<Cow<'static, str>>) -> RejectedUpgrade {
        RejectedUpgrade { status, text: text.into(), stream: self.stream }
    }
}

/// A rejected upgrade; made by [`Upgrade::reject`].
#[derive(Debug)]
pub struct RejectedUpgrade {
    pub(super) status: StatusCode,
    pub(super) text: Cow<'static, str>,
    pub(super) stream: ConnectionStream,
}

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// None for a unix socket.
    pub address: Option<IpAddr>,
    pub is_tls: bool,
    /// Index of the listener in [`super::ServerOptions::listeners`].
    pub listener: usize,
}
