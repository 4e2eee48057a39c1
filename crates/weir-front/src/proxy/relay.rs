//! Relays the body of a response from a worker to a client.
//!
//! Bodies that did not arrive with the head are read by a task of their own, ahead of slow clients:
//! the worker's slot is released when the worker has sent all, not when the client has received
//! it. Bytes are relayed at once; none wait for more to arrive.

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
use crate::upstream::{IdleConnections, ResponseReader, UpstreamBodyError};

/// What a relay needs: both ends, the slot and the limits.
pub(super) struct Relay {
    pub(super) reader: ResponseReader,
    pub(super) slot: UpstreamSlot,
    pub(super) pool: IdleConnections,
    /// How long the worker may be silent.
    pub(super) idle_timeout: Duration,
    pub(super) kind: RelayKind,
}

/// The kind of a response.
pub(super) enum RelayKind {
    Response,
    /// An event stream without an end: it ends when its client disconnects or Weir shuts down.
    Stream {
        drain: Drain,
        /// Whether it holds a slot for streams, and not the slot of its request.
        has_own_slot: bool,
    },
}

impl Relay {
    /// Starts the task that reads, and returns the body for the client.
    pub(super) fn start(self) -> ResponseBody {
        let length = self.reader.length();
        let channel = RelayChannel::default();
        let body = RelayBody { channel: channel.clone(), bytes_left: length };
        drop(spawn_local(self.run(channel)));
        ResponseBody::new(body)
    }

    fn return_connection(self) {
        return_connection(self.reader, &self.slot, &self.pool);
    }

    async fn run(mut self, channel: RelayChannel) {
        match self.pump(&channel).await {
            Some(Ok(())) => {
                self.return_connection();
                return channel.end(Ok(()));
            }
            Some(Err(error)) => channel.end(Err(error)),
            None => {}
        }
        // The worker keeps its slot until it has finished, even without a client.
        match self.kind {
            RelayKind::Response => {
                self.slot.ensure_response_timer();
                let bytes_max = self.slot.app().limits.answer_buffer_bytes;
                if self.reader.discard(bytes_max).await {
                    self.return_connection();
                }
            }
            RelayKind::Stream { has_own_slot: true, .. } => {}
            RelayKind::Stream { has_own_slot: false, .. } => {
                wait_for_worker_to_notice(&mut self.reader, &self.slot).await;
            }
        }
    }

    /// Reads to the end of the body. Returns None if the client has disconnected.
    async fn pump(&mut self, channel: &RelayChannel) -> Option<Result<(), BoxError>> {
        let app = self.slot.app().clone();
        let mut drained: Option<Pin<Box<dyn Future<Output = ()>>>> = match &self.kind {
            RelayKind::Stream { drain, .. } => Some(Box::pin(drain.clone().wait_random_time())),
            RelayKind::Response => None,
        };
        loop {
            let mut is_clients_turn = false;
            poll_fn(|context| {
                let room = channel.poll_room(context, app.limits.answer_buffer_bytes);
                if room.is_pending() && !is_clients_turn {
                    is_clients_turn = true;
                    self.slot.stop_response_timer();
                }
                room
            })
            .await?;
            // The previous piece has arrived, so the worker owes the next from now on. Streams owe
            // none.
            if drained.is_none() {
                self.slot.start_response_timer();
            }
            let (reader, slot, is_response_due) = (&mut self.reader, &self.slot, drained.is_none());
            let mut upload = UploadFairness::new(reader.sent());
            let sent = reader.sent();
            let next = poll_fn(|context| {
                if channel.poll_closed(context).is_ready() {
                    return Poll::Ready(RelayedPiece::Closed);
                }
                if let Some(drained) = &mut drained
                    && drained.as_mut().poll(context).is_ready()
                {
                    return Poll::Ready(RelayedPiece::Bytes(None));
                }
                let data = reader.poll_data(context);
                // The worker may wait for more of the request before it continues.
                if is_response_due
                    && data.is_pending()
                    && (upload.is_clients_turn() || reader.is_sending())
                {
                    upload.update(reader.sent(), reader.waits_for_client(), slot);
                }
                data.map(RelayedPiece::Bytes)
            });
            match timeout(self.idle_timeout, next).await {
                Err(_) if self.reader.sent() != sent => {}
                Err(_) => return Some(Err("the worker was silent for too long".into())),
                Ok(RelayedPiece::Closed) => return None,
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

/// Returns the connection to the pool after a complete response.
pub(super) fn return_connection(
    reader: ResponseReader,
    slot: &UpstreamSlot,
    pool: &IdleConnections,
) {
    if let Some(connection) = reader.into_connection() {
        let app = slot.app();
        pool.put_back(&slot.worker, connection, app.limits.keep_alive(), app.now());
    }
}

/// Ends a stream that is rejected because its worker or its client has too many of them.
pub(super) fn end_rejected_stream(mut reader: ResponseReader, slot: UpstreamSlot) {
    // A process or thread that is busy with the stream keeps its slot until it has noticed.
    if slot.app().limits.streams() == 0 {
        drop(spawn_local(async move {
            // Discards the bytes that came with the head, which the worker sent before it could
            // notice.
            poll_fn(|context| {
                let _ = reader.poll_data(context);
                Poll::Ready(())
            })
            .await;
            wait_for_worker_to_notice(&mut reader, &slot).await;
        }));
    }
}

/// Waits until a worker that is busy with a stream notices that the client has gone, which it does
/// at its next write. It owes that write only after the idle timeout of streams.
pub(super) async fn wait_for_worker_to_notice(reader: &mut ResponseReader, slot: &UpstreamSlot) {
    reader.shut_down_sending().await;
    let idle_timeout = slot.app().limits.stream_idle_timeout;
    if timeout(idle_timeout, reader.discard(0)).await.is_err() {
        slot.ensure_response_timer();
        reader.discard(0).await;
    }
}

enum RelayedPiece {
    Closed,
    Bytes(Option<Result<Bytes, UpstreamBodyError>>),
}

/// The channel between the reading task and the body that hyper writes; clones share it.
#[derive(Clone, Default)]
struct RelayChannel(Rc<RefCell<RelayState>>);

#[derive(Default)]
struct RelayState {
    pieces: VecDeque<(Bytes, Option<Lease>)>,
    bytes: usize,
    /// The budget had no room for the last piece: wait until all pieces were sent.
    is_over_budget: bool,
    end: Option<Result<(), BoxError>>,
    is_closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl RelayChannel {
    fn push(&self, data: Bytes, lease: Option<Lease>) {
        let mut shared = self.0.borrow_mut();
        shared.bytes += data.len();
        shared.is_over_budget = lease.is_none();
        shared.pieces.push_back((data, lease));
        wake(shared.writer.take());
    }

    fn end(&self, end: Result<(), BoxError>) {
        let mut shared = self.0.borrow_mut();
        shared.end = Some(end);
        wake(shared.writer.take());
    }

    /// Waits for room in the buffer. Returns None if the client has disconnected.
    fn poll_room(&self, context: &mut Context<'_>, bytes_max: usize) -> Poll<Option<()>> {
        let mut shared = self.0.borrow_mut();
        if shared.is_closed {
            return Poll::Ready(None);
        }
        let bytes_max = if shared.is_over_budget { 1 } else { bytes_max.max(1) };
        if shared.bytes < bytes_max {
            return Poll::Ready(Some(()));
        }
        shared.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.0.borrow_mut();
        if shared.is_closed {
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

/// The body that hyper writes to the client.
struct RelayBody {
    channel: RelayChannel,
    /// None: the worker has sent no length.
    bytes_left: Option<u64>,
}

impl Drop for RelayBody {
    fn drop(&mut self) {
        let mut shared = self.channel.0.borrow_mut();
        shared.is_closed = true;
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
                    if let Some(remaining) = &mut self.bytes_left {
                        *remaining = remaining.saturating_sub(data.len() as u64);
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
