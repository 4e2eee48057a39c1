//! The body of a client's request, on its way to a worker.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

/// Why a body has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadBody {
    TooLarge,
    /// The client broke off, or sent what is no body.
    Broken,
}

/// A body that is still arriving.
#[derive(Debug)]
pub(crate) struct Outgoing {
    incoming: Incoming,
    bytes_left: u64,
}

impl Outgoing {
    /// None: there is no body.
    pub(crate) fn new(incoming: Incoming, bytes_max: u64) -> Option<Self> {
        (!incoming.is_end_stream()).then_some(Self { incoming, bytes_left: bytes_max })
    }

    /// Bytes that are to come, if the client has said.
    pub(crate) fn length(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// The next bytes; None is the end.
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
            // Trailers end here: they are hop-by-hop for whoever does not ask for them.
            let Ok(data) = frame.into_data() else { continue };
            return Poll::Ready(Some(match self.bytes_left.checked_sub(data.len() as u64) {
                Some(left) => {
                    self.bytes_left = left;
                    Ok(data)
                }
                None => Err(BadBody::TooLarge),
            }));
        }
    }
}
