//! A socket to a worker.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::scratch;
use crate::address::UpstreamAddress;

/// A socket to a worker.
#[derive(Debug)]
pub(crate) enum UpstreamSocket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl UpstreamSocket {
    pub(crate) async fn connect(address: &UpstreamAddress) -> io::Result<Self> {
        match address {
            UpstreamAddress::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            UpstreamAddress::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Whether the peer has neither closed it nor sent what nobody asked for. No system call unless
    /// something has happened to the socket.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [0; 1];
        let read = match self {
            Self::Unix(stream) => stream.try_read(&mut byte),
            Self::Tcp(stream) => stream.try_read(&mut byte),
        };
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// What `take` makes of what has come: None is the end.
    pub(super) fn poll_take<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<Option<T>>> {
        scratch::with(|scratch| {
            let mut into = ReadBuf::new(scratch);
            let read = Pin::new(self).poll_read(context, &mut into);
            read.map_ok(|()| Some(into.filled()).filter(|bytes| !bytes.is_empty()).map(take))
        })
    }
}

impl AsyncRead for UpstreamSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for UpstreamSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is kept back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
