//! The transport that carries a connection's messages.

use std::io;
use std::task::{Context, Poll};

use weir_net::server::ConnectionStream;

/// A socket that carries WebSocket frames, or an HTTP response that is an event stream.
#[derive(Debug)]
pub(crate) enum Transport {
    Socket(ConnectionStream),
    /// An event stream. The response body takes queued messages from the outbox
    /// ([`crate::shard::event_stream`]): nothing is written directly, and nothing is received.
    Events,
}

impl Transport {
    pub(crate) const fn is_events(&self) -> bool {
        matches!(self, Self::Events)
    }

    #[inline]
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.try_write(bytes),
            Self::Events => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    #[inline]
    pub(crate) fn needs_flush(&self) -> bool {
        matches!(self, Self::Socket(stream) if stream.needs_flush())
    }

    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Socket(stream) => stream.poll_read(context, bytes),
            Self::Events => Poll::Pending,
        }
    }

    pub(crate) fn poll_write_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(stream) => stream.poll_write_ready(context),
            Self::Events => Poll::Pending,
        }
    }

    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Socket(stream) => stream.poll_flush(context),
            Self::Events => Poll::Pending,
        }
    }

    /// Makes closing the socket discard unsent data.
    pub(crate) fn forget_unsent(&self) {
        if let Self::Socket(stream) = self {
            // If this fails, the kernel only keeps retransmitting for a while.
            let _ = stream.set_linger_zero();
        }
    }
}
