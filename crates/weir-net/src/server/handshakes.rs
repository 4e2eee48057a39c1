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
    turns: Semaphore,
    limit: Cell<usize>,
}

impl Handshakes {
    pub(super) fn new(limit: u32) -> Self {
        let limit = limit as usize;
        Self { turns: Semaphore::new(limit), limit: Cell::new(limit) }
    }

    /// Applies a new limit after a reload: adds permits, or removes those that are free.
    fn fit(&self, wanted: u32) {
        let (wanted, limit) = (wanted as usize, self.limit.get());
        if wanted > limit {
            self.turns.add_permits(wanted - limit);
            self.limit.set(wanted);
        } else if wanted < limit {
            self.limit.set(limit - self.turns.forget_permits(limit - wanted));
        }
    }

    /// Returns None if all permits are in use.
    fn try_turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.try_acquire().ok()
    }

    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.turns.acquire().await.ok()
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
    let shaking = timeout(limit, shake(&core, acceptor, tcp));
    match core.while_serving(shaking).await {
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

async fn shake<S: ConnectionService>(
    core: &CoreContext<S>,
    acceptor: TlsAcceptor,
    tcp: TcpStream,
) -> std::io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    // Only clients that have sent bytes take a permit. Readiness can be spurious, so peek.
    tcp.peek(&mut [0]).await?;
    core.handshakes().fit(core.limits().tls_handshakes_max);
    let _turn = match core.handshakes().try_turn() {
        Some(turn) => Some(turn),
        None => {
            core.metrics().limit_hit(HttpServerLimit::TlsHandshakesMax);
            core.handshakes().turn().await
        }
    };
    acceptor.accept(tcp).await
}
