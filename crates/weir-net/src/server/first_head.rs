//! The first request of a connection: its head decides what the connection becomes.
//!
//! Every WebSocket connects through this code, so it does as little as possible: a head that
//! arrives in one piece is parsed in the core's shared buffer without a copy.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::StatusCode;
use tokio::time::timeout;

use super::error_response::ErrorResponse;
use super::head::{Arriving, Parsed};
use super::runtime::CoreContext;
use super::{ConnectionService, ConnectionStream, HttpRequestHead, Peer, Upgrade, http, http2};
use crate::NetMetrics;
use crate::client::ClientFull;
use crate::metrics::{HeadRefusal, HttpServerLimit};

/// Serves a connection to its end.
pub(super) async fn serve<S: ConnectionService>(
    core: Rc<CoreContext<S>>,
    stream: ConnectionStream,
    peer: Peer,
) {
    let head_timeout = core.limits().head_timeout;
    let mut first = FirstHead { stream: Some(stream), arriving: Arriving::default(), peer };
    let reading = timeout(head_timeout, poll_fn(|context| first.poll(&core, context)));
    match core.while_serving(reading).await {
        Some(Ok(Routed::Upgraded | Routed::Gone)) | None => {}
        Some(Ok(Routed::Http(stream, read))) => {
            // Boxed, so that connections that are upgraded or wait for their head use less memory.
            Box::pin(http::serve(core, stream, read, peer)).await;
        }
        Some(Ok(Routed::Http2(stream, read))) => {
            Box::pin(http2::serve(core, stream, read, peer)).await;
        }
        Some(Ok(Routed::Refused(stream, response))) => response.send_and_close(&core, stream).await,
        Some(Err(_)) => {
            if let Some(stream) = first.stream.take() {
                reject_head(core.metrics(), HeadRefusal::Late).send_and_close(&core, stream).await;
            }
        }
    }
}

/// What a connection becomes.
enum Routed {
    /// The service took it over.
    Upgraded,
    /// HTTP/1, with the bytes that were read.
    Http(ConnectionStream, Vec<u8>),
    Http2(ConnectionStream, Vec<u8>),
    Refused(ConnectionStream, ErrorResponse),
    /// The client disconnected.
    Gone,
}

/// A connection whose first head is incomplete.
struct FirstHead {
    /// None: routed.
    stream: Option<ConnectionStream>,
    arriving: Arriving,
    peer: Peer,
}

impl FirstHead {
    fn poll<S: ConnectionService>(
        &mut self,
        core: &Rc<CoreContext<S>>,
        context: &mut Context<'_>,
    ) -> Poll<Routed> {
        let mut scratch = core.scratch();
        while let Some(stream) = &mut self.stream {
            let Ok(count @ 1..) = ready!(stream.poll_read(context, &mut scratch)) else {
                break;
            };
            if let Some(routed) = self.route(core, &scratch[..count]) {
                return Poll::Ready(routed);
            }
        }
        Poll::Ready(Routed::Gone)
    }

    /// Returns None if the head is incomplete.
    fn route<S: ConnectionService>(
        &mut self,
        core: &Rc<CoreContext<S>>,
        arrived: &[u8],
    ) -> Option<Routed> {
        let Self { stream, arriving, peer } = self;
        let (bytes_max, headers_max) = {
            let limits = core.limits();
            (limits.head_bytes_max, limits.headers_max)
        };
        arriving.arrive(arrived, bytes_max, headers_max, |parsed, read| {
            let Some(stream) = stream.take() else {
                return Routed::Gone;
            };
            match parsed {
                Parsed::Complete(head, length) if core.claims(&head) => {
                    match upgrade(core, stream, &head, &read[length..], *peer) {
                        None => Routed::Upgraded,
                        Some((stream, response)) => Routed::Refused(stream, response),
                    }
                }
                Parsed::Complete(..) => Routed::Http(stream, read.to_vec()),
                Parsed::Http2 => Routed::Http2(stream, read.to_vec()),
                Parsed::Refused(reason) => {
                    Routed::Refused(stream, reject_head(core.metrics(), reason))
                }
            }
        })
    }
}

/// Passes the connection to the service. Returns it, with the response, if it is rejected.
pub(super) fn upgrade<S: ConnectionService>(
    core: &CoreContext<S>,
    mut stream: ConnectionStream,
    head: &HttpRequestHead<'_>,
    rest: &[u8],
    peer: Peer,
) -> Option<(ConnectionStream, ErrorResponse)> {
    if head.announces_body() {
        // The bytes of a body could be mistaken for the other protocol's.
        return Some((stream, reject_head(core.metrics(), HeadRefusal::UpgradeWithBody)));
    }
    let client = match core.clients().request_of(peer, head) {
        Ok(client) => client,
        Err(ClientFull(used)) => return Some((stream, ErrorResponse::overloaded(used.reason()))),
    };
    client.iter().for_each(|client| stream.count_for_client(client.clone()));
    match core.service().upgrade(Upgrade { head, stream, rest, peer, client }) {
        Ok(()) => {
            core.metrics().upgrade();
            None
        }
        Err(rejected) => {
            core.metrics().head_refused(HeadRefusal::UpgradeRefused);
            Some((rejected.stream, ErrorResponse::new(rejected.status, rejected.text)))
        }
    }
}

/// Counts a rejected head and returns the response.
pub(super) fn reject_head(metrics: &NetMetrics, reason: HeadRefusal) -> ErrorResponse {
    metrics.head_refused(reason);
    match reason {
        HeadRefusal::TooManyBytes => metrics.limit_hit(HttpServerLimit::HeadBytesMax),
        HeadRefusal::TooManyFields => metrics.limit_hit(HttpServerLimit::HeadersMax),
        HeadRefusal::Late => metrics.limit_hit(HttpServerLimit::HeadTimeout),
        _ => {}
    }
    let (status, text) = match reason {
        HeadRefusal::Malformed => (StatusCode::BAD_REQUEST, "this is not an HTTP/1.1 request"),
        HeadRefusal::Version => (
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "only HTTP/1.1, HTTP/1.0 and HTTP/2 are spoken here",
        ),
        HeadRefusal::TooManyBytes => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the request's head is too long (front.limits.head_bytes_max)",
        ),
        HeadRefusal::TooManyFields => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the request's head has too many header fields (front.limits.headers_max)",
        ),
        HeadRefusal::Late => (
            StatusCode::REQUEST_TIMEOUT,
            "the request's head was not complete in time (front.limits.head_timeout)",
        ),
        HeadRefusal::Connect => (
            StatusCode::METHOD_NOT_ALLOWED,
            "there is no CONNECT here; WebSockets are opened over HTTP/1.1",
        ),
        HeadRefusal::TwoHosts => {
            (StatusCode::BAD_REQUEST, "the request's Host and its :authority are not the same")
        }
        HeadRefusal::UpgradeWithBody | HeadRefusal::UpgradeRefused => {
            (StatusCode::BAD_REQUEST, "a request that asks for an upgrade has no body")
        }
    };
    ErrorResponse::new(status, text)
}
