//! Accepts connections: each is served, rejected with a response, or waits in the backlog.

use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{spawn_local, yield_now};
use tokio::time::{sleep, timeout};

use super::error_response::{self, ErrorResponse};
use super::runtime::{ConnectionLimitError, CoreContext};
use super::{ConnectionService, ConnectionStream, Peer, first_head, handshakes};
use crate::client::ClientFull;
use crate::metrics::{ConnectionRefusal, HttpServerLimit};
use crate::{Listener, Tls};

/// How many connections are accepted in one turn of the core. With their heads and responses, 16
/// take about half a millisecond, for which open connections wait.
const ACCEPTS_PER_TURN: usize = 16;
/// The delay after an error of the system, to avoid a busy loop.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// A file that is held open, and closed to free a descriptor when there are no others.
const SPARE: &str = "/dev/null";

/// Accepts the connections of one listening socket.
#[derive(Debug)]
pub(super) struct Acceptor<S> {
    core: Rc<CoreContext<S>>,
    socket: AcceptSocket,
    tls: Option<Arc<Tls>>,
    listener: usize,
    spare: Option<File>,
}

#[derive(Debug)]
enum AcceptSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The outcome of an attempt to accept.
enum Accepted {
    Connection(ConnectionStream, Option<IpAddr>),
    /// Retry after this long.
    NotYet(Duration),
    Failed(io::Error),
}

impl<S: ConnectionService> Acceptor<S> {
    pub(super) fn new(
        core: &Rc<CoreContext<S>>,
        listener: usize,
        socket: Listener,
        tls: Option<Arc<Tls>>,
    ) -> io::Result<Self> {
        let core = Rc::clone(core);
        let socket = AcceptSocket::new(socket)?;
        Ok(Self { core, socket, tls, listener, spare: File::open(SPARE).ok() })
    }

    /// Accepts connections until the core drains.
    pub(super) async fn run(mut self) {
        let draining = self.core.draining().clone();
        draining.run_until_cancelled(self.accept_all()).await;
    }

    async fn accept_all(&mut self) {
        loop {
            for _ in 0..ACCEPTS_PER_TURN {
                match poll_fn(|context| self.poll_accept(context)).await {
                    Accepted::Connection(stream, address) => self.admit(stream, address),
                    Accepted::NotYet(wait) => sleep(wait).await,
                    Accepted::Failed(error) => self.recover(&error).await,
                }
            }
            yield_now().await;
        }
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Accepted> {
        let core = &self.core;
        let accepted = match core.limits().accept_rate() {
            None => ready!(self.socket.poll_accept(context)),
            Some(rate) => match core.shared().with_token(rate, || self.socket.poll_accept(context))
            {
                Ok(accepted) => ready!(accepted),
                Err(wait) => {
                    if self.socket.somebody_waits() {
                        core.metrics().limit_hit(HttpServerLimit::AcceptsPerSecond);
                    }
                    return Poll::Ready(Accepted::NotYet(wait));
                }
            },
        };
        Poll::Ready(match accepted {
            Ok((stream, address)) => Accepted::Connection(stream, address),
            Err(error) => Accepted::Failed(error),
        })
    }

    fn admit(&self, mut stream: ConnectionStream, address: Option<IpAddr>) {
        self.core.metrics().accepted();
        match self.core.open(address) {
            Ok(open) => stream.count_as(open),
            Err(error) => return self.reject(stream, error),
        }
        let core = Rc::clone(&self.core);
        let peer = Peer { address, is_tls: self.tls.is_some(), listener: self.listener };
        match (&self.tls, stream) {
            (Some(tls), ConnectionStream::Tcp(tcp)) => {
                drop(spawn_local(handshakes::serve(core, tls.acceptor(), tcp, peer)));
            }
            (_, stream) => drop(spawn_local(first_head::serve(core, stream, peer))),
        }
    }

    fn reject(&self, stream: ConnectionStream, error: ConnectionLimitError) {
        let metrics = self.core.metrics();
        match error {
            ConnectionLimitError::Connections => {
                metrics.limit_hit(HttpServerLimit::ConnectionsMax);
                metrics.connection_refused(ConnectionRefusal::ConnectionsMax);
                self.reject_with(stream, "too many connections are open; try again later");
            }
            ConnectionLimitError::Client(ClientFull(used)) => {
                metrics.connection_refused(ConnectionRefusal::ClientConnectionsMax);
                self.reject_with(stream, used.reason());
            }
        }
    }

    /// Rejects a connection with a response, and gives the client time to read it. A TLS client
    /// gets no response, because a handshake would cost too much.
    fn reject_with(&self, mut stream: ConnectionStream, reason: &'static str) {
        let response = ErrorResponse::overloaded(reason).to_bytes();
        if self.tls.is_none() && stream.try_write(&response).is_ok() && stream.shutdown().is_ok() {
            let core = Rc::clone(&self.core);
            drop(spawn_local(async move { error_response::linger(&core, stream).await }));
        }
    }

    async fn recover(&mut self, error: &io::Error) {
        match Errno::from_io_error(error) {
            // The client or its network has gone.
            Some(Errno::CONNABORTED | Errno::PROTO | Errno::PERM) => {}
            Some(Errno::MFILE | Errno::NFILE) => self.use_spare(error).await,
            _ => {
                tracing::warn!(%error, "cannot accept connections; trying again");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }

    /// Rejects a connection with the spare descriptor when no other is left.
    async fn use_spare(&mut self, error: &io::Error) {
        self.core.metrics().limit_hit(HttpServerLimit::OpenFiles);
        tracing::warn!(%error, "no open files left: connection rejected (ulimit -n)");
        self.spare = None;
        let accepted = timeout(ACCEPT_AGAIN, poll_fn(|context| self.socket.poll_accept(context)));
        if let Ok(Ok((stream, _))) = accepted.await {
            self.core.metrics().connection_refused(ConnectionRefusal::OpenFiles);
            let reason = "too many connections: the server has no open files left";
            self.reject_with(stream, reason);
        }
        // The rejected connection may linger and use the descriptor; then there is no spare one,
        // and the next call only waits.
        sleep(ACCEPT_AGAIN).await;
        self.spare = File::open(SPARE).ok();
    }
}

impl AcceptSocket {
    fn new(listener: Listener) -> io::Result<Self> {
        match listener {
            Listener::Tcp(listener) => {
                // Accepted sockets inherit the option (on Linux), which saves a system call for
                // each. Responses are written in one piece, and must not wait for the client's ACK.
                sockopt::set_tcp_nodelay(&listener, true)?;
                TcpListener::from_std(listener).map(Self::Tcp)
            }
            Listener::Unix(listener) => UnixListener::from_std(listener).map(Self::Unix),
        }
    }

    fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(ConnectionStream, Option<IpAddr>)>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(context).map_ok(|(tcp, address)| {
                (ConnectionStream::Tcp(tcp.into()), Some(address.ip().to_canonical()))
            }),
            Self::Unix(listener) => listener
                .poll_accept(context)
                .map_ok(|(unix, _)| (ConnectionStream::Unix(unix.into()), None)),
        }
    }

    fn somebody_waits(&self) -> bool {
        let mut ready = [match self {
            Self::Tcp(listener) => PollFd::new(listener, PollFlags::IN),
            Self::Unix(listener) => PollFd::new(listener, PollFlags::IN),
        }];
        rustix::event::poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }
}
