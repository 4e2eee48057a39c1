//! A connection's socket: plain, TLS or unix, with what a task that owns it needs.
//!
//! Reading waits ([`ConnectionStream::poll_read`]); writing does not ([`ConnectionStream::try_write`]): a caller that cannot write
//! now gets `WouldBlock`, and [`ConnectionStream::poll_write_ready`] says when to retry.

mod tls;

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::CountedSocket;
use super::open::ConnectionPermit;
use crate::client::ClientRequest;

/// A connection's socket. `Send`, but it belongs to the runtime of the core that accepted it.
#[derive(Debug)]
pub enum ConnectionStream {
    Tcp(CountedSocket<TcpStream>),
    Tls(Box<CountedSocket<TlsStream<TcpStream>>>),
    Unix(CountedSocket<UnixStream>),
}

impl ConnectionStream {
    /// Reads what has arrived; 0: the client will send no more.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(bytes);
        ready!(Pin::new(self).poll_read_buf(context, &mut into))?;
        Poll::Ready(Ok(into.filled().len()))
    }

    /// Writes as much as the kernel takes now; `WouldBlock` when it takes nothing.
    ///
    /// With TLS the bytes that were encrypted count as written even if the kernel did not take all
    /// of them: [`ConnectionStream::needs_flush`] says so, and nothing more is accepted (`WouldBlock`) until
    /// [`ConnectionStream::poll_flush`] or [`ConnectionStream::poll_write_ready`] got rid of them. At most 64 KiB
    /// (rustls' own limit) wait in that way.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write(bytes),
            Self::Unix(unix) => unix.try_write(bytes),
            Self::Tls(tls) => tls::try_write(tls, bytes),
        }
    }

    /// Resolves when [`ConnectionStream::try_write`] is worth a try: the kernel has room and no encrypted
    /// bytes wait.
    pub fn poll_write_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_write_ready(context),
            Self::Unix(unix) => unix.poll_write_ready(context),
            Self::Tls(tls) => tls::poll_write_ready(tls, context),
        }
    }

    /// Whether bytes that count as written still wait in memory. Only TLS has such bytes; who has
    /// written and finds some must call [`ConnectionStream::poll_flush`] until it resolves.
    #[must_use]
    pub fn needs_flush(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(tls) => tls.get_ref().1.wants_write(),
        }
    }

    /// Resolves when the kernel has everything that counts as written.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => tls::poll_flush(tls, context),
        }
    }

    /// Says that nothing more will be written (TLS: `close_notify`, then FIN). `WouldBlock`: bytes
    /// still wait ([`ConnectionStream::poll_flush`]); nothing was shut down.
    pub fn shutdown(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            tls::close_notify(tls)?;
        }
        SockRef::from(&self.as_fd()).shutdown(Shutdown::Write)
    }

    /// Makes closing the socket throw away what was not sent and reset the connection, so that the
    /// kernel keeps nothing of it. On a unix socket it changes nothing.
    pub fn set_linger_zero(&self) -> io::Result<()> {
        SockRef::from(&self.as_fd()).set_linger(Some(Duration::ZERO))
    }

    /// It takes one of the places that are counted, until it is dropped.
    pub(super) fn count_as(&mut self, open: ConnectionPermit) {
        match self {
            Self::Tcp(tcp) => tcp.count_as(open),
            Self::Tls(tls) => tls.count_as(open),
            Self::Unix(unix) => unix.count_as(open),
        }
    }

    /// The upgrade that it is for counts for a client, until the socket is closed.
    pub(super) fn hold(&mut self, client: ClientRequest) {
        match self {
            Self::Tcp(tcp) => tcp.hold(client),
            Self::Tls(tls) => tls.hold(client),
            Self::Unix(unix) => unix.hold(client),
        }
    }

    fn poll_read_buf(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(&mut **tcp).poll_read(context, into),
            Self::Tls(tls) => Pin::new(&mut ***tls).poll_read(context, into),
            Self::Unix(unix) => Pin::new(&mut **unix).poll_read(context, into),
        }
    }
}

impl AsFd for ConnectionStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(tcp) => tcp.as_fd(),
            Self::Tls(tls) => tls.get_ref().0.as_fd(),
            Self::Unix(unix) => unix.as_fd(),
        }
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read_buf(context, into)
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(&mut **tcp).poll_write(context, bytes),
            Self::Tls(tls) => Pin::new(&mut ***tls).poll_write(context, bytes),
            Self::Unix(unix) => Pin::new(&mut **unix).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(&mut **tcp).poll_write_vectored(context, slices),
            Self::Tls(tls) => Pin::new(&mut ***tls).poll_write_vectored(context, slices),
            Self::Unix(unix) => Pin::new(&mut **unix).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Self::poll_flush(self.get_mut(), context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(tcp) => Pin::new(&mut **tcp).poll_shutdown(context),
            Self::Tls(tls) => Pin::new(&mut ***tls).poll_shutdown(context),
            Self::Unix(unix) => Pin::new(&mut **unix).poll_shutdown(context),
        }
    }
}
