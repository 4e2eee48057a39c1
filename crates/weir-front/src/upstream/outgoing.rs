//! The body of a client's request, forwarded to a worker.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

/// Why a body is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadBody {
    TooLarge,
    /// The client disconnected or sent a malformed body.
    Broken,
}

/// A body that is still arriving, with a limit of bytes.
#[derive(Debug)]
pub(crate) struct Outgoing {
    incoming: Incoming,
    bytes_left: u64,
}

impl Outgoing {
    /// Returns None if there is no body.
    pub(crate) fn new(incoming: Incoming, bytes_max: u64) -> Option<Self> {
        (!incoming.is_end_stream()).then_some(Self { incoming, bytes_left: bytes_max })
    }

    /// Returns how many bytes are still to come, if the client has sent a length.
    pub(crate) fn length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// Returns the next bytes. None: the end.
    pub(crate) fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BadBody>>> {
        loop {
            let frame = match ready!(Pin::new(&mut self.incoming).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(_)) => return Poll::Ready(Some(Err(BadBody::Broken))),
                Some(Ok(frame)) => frame,
            };
            // Trailers are not forwarded, since the worker has not asked for them.
            let Ok(data) = frame.into_data() else { continue };
            return Poll::Ready(Some(match self.bytes_left.checked_sub(data.len() as u64) {
                Some(remaining) => {
                    self.bytes_left = remaining;
                    Ok(data)
                }
                None => Err(BadBody::TooLarge),
            }));
        }
    }
}
