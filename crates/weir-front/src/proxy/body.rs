//! Bodies on their way: to a worker, within a limit; to a client, while a slot is held.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep};
use weir_net::server::BoxError;

use super::pool::{Connection, Pool};
use crate::app::Slot;
use crate::drain::Drain;

/// What went wrong with a request's body, for the one who words the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BodyState {
    #[default]
    Sound,
    TooLarge,
    /// The client broke off, or sent what is no body.
    Broken,
}

/// A request's body.
#[derive(Debug)]
pub(super) struct RequestBody {
    /// None: there is none.
    incoming: Option<Incoming>,
    bytes_left: u64,
    state: Rc<Cell<BodyState>>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, bytes_max: u64) -> Self {
        let incoming = Some(incoming).filter(|incoming| !incoming.is_end_stream());
        Self { incoming, bytes_left: bytes_max, state: Rc::default() }
    }

    pub(super) fn empty() -> Self {
        Self { incoming: None, bytes_left: 0, state: Rc::default() }
    }

    pub(super) fn state(&self) -> Rc<Cell<BodyState>> {
        Rc::clone(&self.state)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.incoming.is_none()
    }

    fn fail(&self, state: BodyState, why: BoxError) -> Option<Result<Frame<Bytes>, BoxError>> {
        self.state.set(state);
        Some(Err(why))
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(incoming).poll_frame(context));
        Poll::Ready(match frame {
            None => None,
            Some(Err(error)) => self.fail(BodyState::Broken, error.into()),
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                match self.bytes_left.checked_sub(bytes) {
                    Some(left) => {
                        self.bytes_left = left;
                        Some(Ok(frame))
                    }
                    None => self.fail(BodyState::TooLarge, "request_bytes_max".into()),
                }
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

/// An answer's body. The worker has its slot back, and its connection is kept, once the body has
/// come to its end.
pub(super) struct AnswerBody {
    incoming: Incoming,
    /// None: the end.
    held: Option<Held>,
    patience: Duration,
    silence: Option<Pin<Box<Sleep>>>,
    /// Of a stream of events, which has no end of its own.
    drained: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

/// What an answer holds until its end.
pub(super) struct Held {
    pub(super) slot: Slot,
    pub(super) connection: Connection,
    pub(super) pool: Pool,
}

impl AnswerBody {
    /// `patience`: how long the worker may be silent; `drain`: it ends when Weir does.
    pub(super) fn new(
        incoming: Incoming,
        held: Held,
        patience: Duration,
        drain: Option<Drain>,
    ) -> Self {
        let drained =
            drain.map(|drain| -> Pin<Box<dyn Future<Output = ()>>> { Box::pin(drain.turn()) });
        let mut body = Self { incoming, held: Some(held), patience, silence: None, drained };
        body.let_go_at_end();
        body
    }

    fn let_go_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        if let Some(Held { slot, connection, pool }) = self.held.take() {
            pool.keep(&slot.worker, connection, slot.app().limits.keep_alive());
        }
    }

    /// Resolves when the worker has been silent for too long.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let patience = self.patience;
        self.silence.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(context)
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) else {
            if let Some(drained) = &mut self.drained
                && drained.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(None);
            }
            ready!(self.poll_silence(context));
            return Poll::Ready(Some(Err("the worker was silent for too long".into())));
        };
        match frame {
            Some(Ok(frame)) => {
                let patience = self.patience;
                if let Some(silence) = &mut self.silence {
                    silence.as_mut().reset(Instant::now() + patience);
                }
                self.let_go_at_end();
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error.into()))),
            None => {
                self.let_go();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AnswerBody").finish_non_exhaustive()
    }
}
