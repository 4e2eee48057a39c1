//! What a connection's messages go into.

use std::io;
use std::task::{Context, Poll};

use weir_net::server::ConnectionStream;

/// A socket that carries WebSocket frames, or an answer over HTTP that is a stream of events.
#[derive(Debug)]
pub(crate) enum Transport {
    Socket(ConnectionStream),
    /// The answer's body takes what waits ([`crate::shard::event_stream`]); nothing is written
    /// directly, and nothing is heard.
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

    /// What was not sent is thrown away when the socket is closed.
    pub(crate) fn forget_unsent(&self) {
        if let Self::Socket(stream) = self {
            // Without it the kernel keeps trying for a while.
            let _ = stream.set_linger_zero();
        }
    }
}
