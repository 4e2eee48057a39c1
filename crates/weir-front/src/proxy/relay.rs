//! The body of a response, from a worker to a client.
//!
//! One that is not here as a whole is read by a task of its own, ahead of a client that is slower
//! than the worker: the worker has its slot back when it has said all, not when the client has
//! heard all. What is read goes on at once; nothing waits for more.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::task::spawn_local;
use tokio::time::timeout;
use weir_net::server::{BoxError, ResponseBody};

use super::exchange::UploadFairness;
use crate::app::{Lease, UpstreamSlot};
use crate::drain::Drain;
use crate::upstream::{AnswerReader, IdleConnections, UpstreamBodyError};

/// How a response is passed on.
pub(super) struct Relay {
    pub(super) reader: AnswerReader,
    pub(super) slot: UpstreamSlot,
    pub(super) pool: IdleConnections,
    /// How long the worker may be silent.
    pub(super) patience: Duration,
    pub(super) kind: RelayKind,
}

/// What the response is.
pub(super) enum RelayKind {
    Answer,
    /// Events without an end: it ends when its client disconnects, or Weir ends.
    Stream {
        drain: Drain,
        /// One of those that are for streams: the worker has one slot more for its requests, as if
        /// it did nothing for this one.
        has_own_slot: bool,
    },
}

impl Relay {
    /// The body for the client.
    pub(super) fn start(self) -> ResponseBody {
        let length = self.reader.length();
        let channel = RelayChannel::default();
        let body = RelayBody { channel: channel.clone(), bytes_left: length };
        drop(spawn_local(self.run(channel)));
        ResponseBody::new(body)
    }

    fn let_go(self) {
        let_go(self.reader, &self.slot, &self.pool);
    }

    async fn run(mut self, channel: RelayChannel) {
        match self.pump(&channel).await {
            Some(Ok(())) => {
                self.let_go();
                return channel.end(Ok(()));
            }
            Some(Err(error)) => channel.end(Err(error)),
            None => {}
        }
        // The worker has its slot until it is done, whoever listens.
        match self.kind {
            RelayKind::Answer => {
                self.slot.owes_still();
                let bytes_max = self.slot.app().limits.answer_buffer_bytes;
                if self.reader.discard(bytes_max).await {
                    self.let_go();
                }
            }
            RelayKind::Stream { has_own_slot: true, .. } => {}
            RelayKind::Stream { has_own_slot: false, .. } => {
                outlive_listener(&mut self.reader, &self.slot).await;
            }
        }
    }

    /// To the end of the body. None: the client has gone.
    async fn pump(&mut self, channel: &RelayChannel) -> Option<Result<(), BoxError>> {
        let app = self.slot.app().clone();
        let mut drained: Option<Pin<Box<dyn Future<Output = ()>>>> = match &self.kind {
            RelayKind::Stream { drain, .. } => Some(Box::pin(drain.clone().turn())),
            RelayKind::Answer => None,
        };
        loop {
            let mut is_clients_turn = false;
            poll_fn(|context| {
                let room = channel.poll_room(context, app.limits.answer_buffer_bytes);
                if room.is_pending() && !is_clients_turn {
                    is_clients_turn = true;
                    self.slot.waits_for_client();
                }
                room
            })
            .await?;
            // What was read before was a response to what was owed. A stream owes nothing.
            if drained.is_none() {
                self.slot.owes();
            }
            let (reader, slot, owes) = (&mut self.reader, &self.slot, drained.is_none());
            let mut turn = UploadFairness::new(reader.sent());
            let sent = reader.sent();
            let next = poll_fn(|context| {
                if channel.poll_gone(context).is_ready() {
                    return Poll::Ready(RelayedPiece::Gone);
                }
                if let Some(drained) = &mut drained
                    && drained.as_mut().poll(context).is_ready()
                {
                    return Poll::Ready(RelayedPiece::Bytes(None));
                }
                let data = reader.poll_data(context);
                // It may wait for more of its request before it says more.
                if owes && data.is_pending() && (turn.is_clients() || reader.is_sending()) {
                    turn.note(reader.sent(), reader.waits_for_client(), slot);
                }
                data.map(RelayedPiece::Bytes)
            });
            match timeout(self.patience, next).await {
                Err(_) if self.reader.sent() != sent => {}
                Err(_) => return Some(Err("the worker was silent for too long".into())),
                Ok(RelayedPiece::Gone) => return None,
                Ok(RelayedPiece::Bytes(None)) => return Some(Ok(())),
                Ok(RelayedPiece::Bytes(Some(Err(error)))) => return Some(Err(error.into())),
                Ok(RelayedPiece::Bytes(Some(Ok(data)))) => {
                    let lease = app.buffers.take(data.len());
                    channel.push(data, lease);
                }
            }
        }
    }
}

/// The response has ended: the connection may serve another request.
pub(super) fn let_go(reader: AnswerReader, slot: &UpstreamSlot, pool: &IdleConnections) {
    if let Some(connection) = reader.into_connection() {
        let app = slot.app();
        pool.keep(&slot.worker, connection, app.limits.keep_alive(), app.now());
    }
}

/// A stream is rejected: its worker has no room for it, or its client has its maximum.
pub(super) fn hang_up(mut reader: AnswerReader, slot: UpstreamSlot) {
    // A process or a thread that it keeps busy has its slot until it has noticed.
    if slot.app().limits.streams() == 0 {
        drop(spawn_local(async move {
            // What came with the head was said before it could notice.
            poll_fn(|context| {
                let _ = reader.poll_data(context);
                Poll::Ready(())
            })
            .await;
            outlive_listener(&mut reader, &slot).await;
        }));
    }
}

/// A process or a thread that a stream keeps busy notices at its next write that the client is gone. It
/// owes none, but for one in the time that streams have for it.
pub(super) async fn outlive_listener(reader: &mut AnswerReader, slot: &UpstreamSlot) {
    reader.hang_up().await;
    let patience = slot.app().limits.stream_idle_timeout;
    if timeout(patience, reader.discard(0)).await.is_err() {
        slot.owes_still();
        reader.discard(0).await;
    }
}

enum RelayedPiece {
    Gone,
    Bytes(Option<Result<Bytes, UpstreamBodyError>>),
}

/// Between the task that reads and the body that hyper writes; clones are the same.
#[derive(Clone, Default)]
struct RelayChannel(Rc<RefCell<RelayState>>);

#[derive(Default)]
struct RelayState {
    pieces: VecDeque<(Bytes, Option<Lease>)>,
    bytes: usize,
    /// The budget gave nothing for the last piece: there is room when all is gone.
    is_short: bool,
    end: Option<Result<(), BoxError>>,
    is_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl RelayChannel {
    fn push(&self, data: Bytes, lease: Option<Lease>) {
        let mut shared = self.0.borrow_mut();
        shared.bytes += data.len();
        shared.is_short = lease.is_none();
        shared.pieces.push_back((data, lease));
        wake(shared.writer.take());
    }

    fn end(&self, end: Result<(), BoxError>) {
        let mut shared = self.0.borrow_mut();
        shared.end = Some(end);
        wake(shared.writer.take());
    }

    /// None: the client has gone.
    fn poll_room(&self, context: &mut Context<'_>, bytes_max: usize) -> Poll<Option<()>> {
        let mut shared = self.0.borrow_mut();
        if shared.is_gone {
            return Poll::Ready(None);
        }
        let bytes_max = if shared.is_short { 1 } else { bytes_max.max(1) };
        if shared.bytes < bytes_max {
            return Poll::Ready(Some(()));
        }
        shared.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.0.borrow_mut();
        if shared.is_gone {
            return Poll::Ready(());
        }
        shared.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        let mut shared = self.0.borrow_mut();
        if let Some((data, lease)) = shared.pieces.pop_front() {
            shared.bytes -= data.len();
            drop(lease);
            wake(shared.reader.take());
            return Poll::Ready(Some(Ok(data)));
        }
        match shared.end.take() {
            Some(Ok(())) => {
                shared.end = Some(Ok(()));
                Poll::Ready(None)
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => {
                shared.writer = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// What the client's connection takes.
struct RelayBody {
    channel: RelayChannel,
    /// None: the worker has not said.
    bytes_left: Option<u64>,
}

impl Drop for RelayBody {
    fn drop(&mut self) {
        let mut shared = self.channel.0.borrow_mut();
        shared.is_gone = true;
        wake(shared.reader.take());
    }
}

impl HttpBody for RelayBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.channel.poll_next(context).map(|next| {
            next.map(|data| {
                data.map(|data| {
                    if let Some(left) = &mut self.bytes_left {
                        *left = left.saturating_sub(data.len() as u64);
                    }
                    Frame::data(data)
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.bytes_left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes_left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for RelayBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RelayBody").finish_non_exhaustive()
    }
}
