//! A connection's socket: plain TCP, TLS or unix.
//!
//! Reading waits ([`ConnectionStream::poll_read`]). Writing does not
//! ([`ConnectionStream::try_write`]): it fails with `WouldBlock`, and
//! [`ConnectionStream::poll_write_ready`] resolves when to retry.

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

/// A connection's socket. It is `Send`, but belongs to the runtime of the core that accepted it.
#[derive(Debug)]
pub enum ConnectionStream {
    Tcp(CountedSocket<TcpStream>),
    Tls(Box<CountedSocket<TlsStream<TcpStream>>>),
    Unix(CountedSocket<UnixStream>),
}

impl ConnectionStream {
    /// Reads the bytes that have arrived. Returns 0 if the client will send no more.
    pub fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(bytes);
        ready!(Pin::new(self).poll_read_buf(context, &mut into))?;
        Poll::Ready(Ok(into.filled().len()))
    }

    /// Writes as much as the kernel takes now. Fails with `WouldBlock` if it takes nothing.
    ///
    /// With TLS, encrypted bytes count as written even if the kernel has not taken all of them.
    /// Then [`ConnectionStream::needs_flush`] returns true, and further writes fail with
    /// `WouldBlock` until [`ConnectionStream::poll_flush`] or
    /// [`ConnectionStream::poll_write_ready`] has written the rest, 64 KiB at most (rustls' limit).
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.try_write(bytes),
            Self::Unix(unix) => unix.try_write(bytes),
            Self::Tls(tls) => tls::try_write(tls, bytes),
        }
    }

    /// Resolves when [`ConnectionStream::try_write`] may succeed: the kernel has room and all
    /// encrypted bytes were written.
    pub fn poll_write_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_write_ready(context),
            Self::Unix(unix) => unix.poll_write_ready(context),
            Self::Tls(tls) => tls::poll_write_ready(tls, context),
        }
    }

    /// Returns whether bytes that count as written are still in memory, which happens with TLS
    /// only. After a write, call [`ConnectionStream::poll_flush`] until it resolves.
    #[must_use]
    pub fn needs_flush(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(tls) => tls.get_ref().1.wants_write(),
        }
    }

    /// Resolves when the kernel has all bytes that count as written.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls(tls) => tls::poll_flush(tls, context),
        }
    }

    /// Shuts down the sending side (with TLS: `close_notify`, then FIN). Fails with `WouldBlock`,
    /// and shuts down nothing, while bytes are in memory ([`ConnectionStream::poll_flush`]).
    pub fn shutdown(&mut self) -> io::Result<()> {
        if let Self::Tls(tls) = self {
            tls::close_notify(tls)?;
        }
        SockRef::from(&self.as_fd()).shutdown(Shutdown::Write)
    }

    /// Makes the close of the socket discard unsent bytes and reset the connection, so that the
    /// kernel keeps nothing of it. Has no effect on a unix socket.
    pub fn set_linger_zero(&self) -> io::Result<()> {
        SockRef::from(&self.as_fd()).set_linger(Some(Duration::ZERO))
    }

    /// Attaches a permit, which is released when the socket is dropped.
    pub(super) fn count_as(&mut self, open: ConnectionPermit) {
        match self {
            Self::Tcp(tcp) => tcp.count_as(open),
            Self::Tls(tls) => tls.count_as(open),
            Self::Unix(unix) => unix.count_as(open),
        }
    }

    /// Makes the upgrade count for a client until the socket is dropped.
    pub(super) fn count_for_client(&mut self, client: ClientRequest) {
        match self {
            Self::Tcp(tcp) => tcp.count_for_client(client),
            Self::Tls(tls) => tls.count_for_client(client),
            Self::Unix(unix) => unix.count_for_client(client),
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
