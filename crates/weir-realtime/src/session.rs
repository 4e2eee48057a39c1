//! One client's connection. An idle one takes some 300 bytes and has no buffer.

mod outbox;
mod transport;

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use weir_base::clock::Timestamp;
use weir_base::token_bucket::TokenBucket;

pub(crate) use self::outbox::{FitOutcome, Outbox};
pub(crate) use self::transport::Transport;
use crate::app::{App, ConnectionQuota};
use crate::cores::{Audience, Broadcast, EventKey};
use crate::fanout::Delivery;
use crate::pusher::client_message::{SignIn, Subscribe};
use crate::pusher::socket_id::SocketId;
use crate::settings::SlowClients;
use crate::users::SignedIn;
use crate::websocket::Decoder;

/// A connection, owned by one core.
#[derive(Debug)]
pub(crate) struct ClientSession {
    pub(crate) socket_id: SocketId,
    pub(crate) app: Arc<App>,
    pub(crate) stream: Transport,
    pub(crate) decoder: Decoder,
    pub(crate) outbox: Option<Box<Outbox>>,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) user: Option<Box<SignedIn>>,
    /// Bytes received but not processed yet, until the responses to earlier messages are written.
    /// Less than one read.
    pub(crate) unprocessed: Vec<u8>,
    /// A request that found no room. It is retried before more messages are processed.
    pub(crate) postponed: Option<Box<Postponed>>,
    /// Wakes the connection's task.
    pub(crate) waker: Option<Waker>,
    pub(crate) opened_at: Timestamp,
    /// When data was last received.
    pub(crate) received_at: Timestamp,
    /// Set when the connection subscribes or signs in for the first time, and not reset after.
    pub(crate) has_been_used: bool,
    /// Set when the connection first subscribes or signs in with a signature of the application's
    /// server.
    pub(crate) is_authorized: bool,
    pub(crate) client_events: TokenBucket,
    pub(crate) state: ConnectionState,
    /// Number of subscriptions that the core's token bucket must grant before more is read.
    pub(crate) unpaid_subscriptions: u16,
    /// Whether the first subscription is still to come. It is charged before anything is read.
    pub(crate) has_prepaid: bool,
    /// Whether the connection waits in the queue for the token bucket.
    pub(crate) is_waiting: bool,
    _quota: ConnectionQuota,
}

/// A subscription of a connection.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// The channel's number on this core.
    pub(crate) channel: u32,
    /// The connection's index among the channel's subscribers.
    pub(crate) index: u32,
    /// The member's user id, on a presence channel.
    pub(crate) user_id: Option<Arc<str>>,
    /// Whether the connection receives batched changes of the members instead of single events.
    pub(crate) wants_member_changes: bool,
}

/// A connection's stage between opening and closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// The connection is in normal use.
    Open,
    /// A ping was sent; the client must send something by `until`.
    Pinged { until: Timestamp },
    /// The close frame is written or queued; the client must close too by `until`.
    Closing { until: Timestamp },
    /// Both sides have sent a close frame. The connection ends when everything is written, or at
    /// `until`.
    Leaving { until: Timestamp },
}

/// A request to be carried out later.
#[derive(Debug)]
pub(crate) enum Postponed {
    /// A subscription. Cores that must notify other subscribers had no room.
    Subscribe(Subscribe),
    /// A sign-in. Cores that must notify the user's watchers had no room.
    SignIn(SignIn),
    /// The subscription of an event stream, to be made once the token bucket allows it.
    Stream(Subscribe),
}

/// The outcome of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The socket accepted all of it.
    Written,
    /// At least a part is queued, and `dropped` older events were removed to make room.
    Waits { dropped: usize },
    /// The client is too slow and must be disconnected.
    TooSlow,
    /// The connection is broken.
    Broken,
}

/// The limit of queued bytes, and what to do beyond it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutboxBudget {
    pub(crate) bytes_max: usize,
    pub(crate) policy: SlowClients,
}

impl ClientSession {
    pub(crate) fn new(
        socket_id: SocketId,
        app: Arc<App>,
        quota: ConnectionQuota,
        stream: Transport,
        now: Timestamp,
    ) -> Self {
        Self {
            socket_id,
            app,
            stream,
            decoder: Decoder::default(),
            outbox: None,
            subscriptions: Vec::new(),
            user: None,
            unprocessed: Vec::new(),
            postponed: None,
            waker: None,
            opened_at: now,
            received_at: now,
            has_been_used: false,
            is_authorized: false,
            client_events: TokenBucket::default(),
            state: ConnectionState::Open,
            // The first subscription is charged before it is read.
            unpaid_subscriptions: 1,
            has_prepaid: true,
            is_waiting: false,
            _quota: quota,
        }
    }

    /// Returns the limit of this connection's outbox.
    pub(crate) fn budget(&self) -> OutboxBudget {
        let settings = self.app.settings();
        OutboxBudget { bytes_max: settings.client_queue_bytes_max, policy: settings.slow_clients }
    }

    /// Returns whether the connection is closing. It then sends and receives only close frames.
    pub(crate) const fn is_closing(&self) -> bool {
        matches!(self.state, ConnectionState::Closing { .. } | ConnectionState::Leaving { .. })
    }

    /// Returns the number of queued bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.outbox.as_ref().map_or(0, |outbox| outbox.bytes())
    }

    /// Returns whether data still has to be written to the socket.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.outbox.is_some() || self.stream.needs_flush()
    }

    /// Sends events of a channel, or queues them.
    #[inline]
    pub(crate) fn deliver(&mut self, delivery: Delivery<'_>) -> SendOutcome {
        match delivery {
            Delivery::Joined { broadcasts, joined } if self.outbox.is_none() => {
                match self.stream.try_write(joined) {
                    Ok(bytes) if bytes == joined.len() && !self.stream.needs_flush() => {
                        SendOutcome::Written
                    }
                    Ok(bytes) => self.queue_rest(broadcasts, bytes),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.queue_rest(broadcasts, 0)
                    }
                    Err(_) => SendOutcome::Broken,
                }
            }
            Delivery::Joined { broadcasts, .. } => self.queue_rest(broadcasts, 0),
            Delivery::Each(broadcasts) => {
                let was_empty = self.outbox.is_none();
                let for_session =
                    |broadcast: &&Broadcast| broadcast.audience != Audience::Except(self.socket_id);
                let for_session: Vec<_> =
                    broadcasts.iter().filter(for_session).map(queued).collect();
                if for_session.is_empty() {
                    return SendOutcome::Written;
                }
                for (bytes, event) in for_session {
                    self.outbox.get_or_insert_default().push(bytes, event, 0);
                }
                self.flush_outbox(was_empty)
            }
        }
    }

    /// Sends messages for this client alone, or queues them. `bytes` are whole frames.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> SendOutcome {
        let was_empty = self.outbox.is_none();
        let written = if was_empty { self.stream.try_write(bytes) } else { Ok(0) };
        let written = match written {
            Ok(written) if written == bytes.len() && !self.stream.needs_flush() => {
                return SendOutcome::Written;
            }
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => return SendOutcome::Broken,
        };
        let outbox = self.outbox.get_or_insert_default();
        if written < bytes.len() {
            // Queue all of the bytes: the outbox must know that a frame is partly written.
            outbox.push(Bytes::copy_from_slice(bytes), None, written);
        }
        self.fit(was_empty)
    }

    /// Queues the frames of `broadcasts`, without the first `written` bytes.
    #[cold]
    fn queue_rest(&mut self, broadcasts: &[Broadcast], mut written: usize) -> SendOutcome {
        let was_empty = self.outbox.is_none();
        let outbox = self.outbox.get_or_insert_default();
        for (bytes, event) in broadcasts.iter().map(queued) {
            if written >= bytes.len() {
                written -= bytes.len();
                continue;
            }
            outbox.push(bytes, event, std::mem::take(&mut written));
        }
        self.fit(was_empty)
    }

    /// Writes the outbox at once if it was empty before, then applies its limit.
    fn flush_outbox(&mut self, was_empty: bool) -> SendOutcome {
        if was_empty {
            let mut buffer = [0; WRITE_BYTES];
            match self.write_waiting(&mut buffer) {
                Ok(true) => return SendOutcome::Written,
                Ok(false) => {}
                Err(_) => return SendOutcome::Broken,
            }
        }
        self.fit(was_empty)
    }

    fn fit(&mut self, was_empty: bool) -> SendOutcome {
        let OutboxBudget { bytes_max, policy } = self.budget();
        let outbox = self.outbox.get_or_insert_default();
        // The connection's task must wait for the socket from now on.
        if let Some(waker) = self.waker.as_ref().filter(|_| was_empty) {
            waker.wake_by_ref();
        }
        match outbox.fit(bytes_max, policy) {
            FitOutcome::Dropped(dropped) => SendOutcome::Waits { dropped },
            FitOutcome::TooSlow => SendOutcome::TooSlow,
        }
    }

    /// Writes the outbox while the socket accepts data. Resolves when nothing is left to write.
    pub(crate) fn poll_write_waiting(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<()>> {
        while self.outbox.is_some() {
            ready!(self.stream.poll_write_ready(context))?;
            if self.write_waiting(buffer)? {
                break;
            }
        }
        self.stream.poll_flush(context)
    }

    /// Writes the outbox until it is empty or the socket is full. Returns whether everything is
    /// written.
    fn write_waiting(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        while let Some(outbox) = &mut self.outbox {
            if outbox.is_empty() {
                self.outbox = None;
                break;
            }
            let bytes = outbox.fill(buffer);
            match self.stream.try_write(&buffer[..bytes]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => outbox.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(!self.stream.needs_flush())
    }
}

/// The most bytes of an outbox that one write carries.
const WRITE_BYTES: usize = 4 << 10;

fn queued(broadcast: &Broadcast) -> (Bytes, Option<EventKey>) {
    (broadcast.frame.wire().clone(), broadcast.event)
}
