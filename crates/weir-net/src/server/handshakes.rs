//! TLS handshakes, limited in time and in number.

use std::cell::Cell;
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::runtime::CoreContext;
use super::{ConnectionService, ConnectionStream, CountedSocket, Peer, first_head, http2};
use crate::metrics::{ConnectionRefusal, HttpServerLimit};
use crate::tls::HTTP2;

/// The permits of one core. Further handshakes wait in order.
#[derive(Debug)]
pub(super) struct Handshakes {
    permits: Semaphore,
    limit: Cell<usize>,
}

impl Handshakes {
    pub(super) fn new(limit: u32) -> Self {
        let limit = limit as usize;
        Self { permits: Semaphore::new(limit), limit: Cell::new(limit) }
    }

    /// Applies a new limit after a reload: adds permits, or removes those that are free.
    fn set_limit(&self, new_limit: u32) {
        let (new_limit, limit) = (new_limit as usize, self.limit.get());
        if new_limit > limit {
            self.permits.add_permits(new_limit - limit);
            self.limit.set(new_limit);
        } else if new_limit < limit {
            self.limit.set(limit - self.permits.forget_permits(limit - new_limit));
        }
    }

    /// Returns None if all permits are in use.
    fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.try_acquire().ok()
    }

    async fn acquire(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.permits.acquire().await.ok()
    }
}

/// Serves a connection of a TLS listener to its end.
pub(super) async fn serve<S: ConnectionService>(
    core: Rc<CoreContext<S>>,
    acceptor: TlsAcceptor,
    tcp: CountedSocket<TcpStream>,
    peer: Peer,
) {
    let (tcp, open) = tcp.into_parts();
    let limit = core.limits().tls_handshake_timeout;
    let handshake = timeout(limit, accept_tls(&core, acceptor, tcp));
    match core.while_serving(handshake).await {
        Some(Ok(Ok(tls))) => {
            let is_http2 = tls.get_ref().1.alpn_protocol() == Some(HTTP2);
            let stream = ConnectionStream::Tls(Box::new(CountedSocket::with(tls, open)));
            if is_http2 {
                Box::pin(http2::serve(core, stream, Vec::new(), peer)).await;
            } else {
                first_head::serve(core, stream, peer).await;
            }
        }
        Some(Ok(Err(error))) => {
            core.metrics().connection_refused(ConnectionRefusal::TlsFailed);
            tracing::debug!(address = ?peer.address, %error, "TLS handshake failed");
        }
        Some(Err(_)) => {
            core.metrics().limit_hit(HttpServerLimit::TlsHandshakeTimeout);
            core.metrics().connection_refused(ConnectionRefusal::TlsLate);
        }
        None => {}
    }
}

async fn accept_tls<S: ConnectionService>(
    core: &CoreContext<S>,
    acceptor: TlsAcceptor,
    tcp: TcpStream,
) -> std::io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    // Only clients that have sent bytes take a permit. Readiness can be spurious, so peek.
    tcp.peek(&mut [0]).await?;
    core.handshakes().set_limit(core.limits().tls_handshakes_max);
    let _permit = match core.handshakes().try_acquire() {
        Some(acquire) => Some(acquire),
        None => {
            core.metrics().limit_hit(HttpServerLimit::TlsHandshakesMax);
            core.handshakes().acquire().await
        }
    };
    acceptor.accept(tcp).await
}
