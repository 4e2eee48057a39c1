//! A socket to a worker: unix or TCP.

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

    /// Returns whether the worker has neither closed the socket nor sent unexpected bytes. Makes a
    /// system call only if something has happened to the socket.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [0; 1];
        let read = match self {
            Self::Unix(stream) => stream.try_read(&mut byte),
            Self::Tcp(stream) => stream.try_read(&mut byte),
        };
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Reads once and returns the result of `take` for the bytes. None: the end.
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
        // There is no buffer.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
