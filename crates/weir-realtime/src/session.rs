//! One client's connection, as its core keeps it: some 300 bytes, and no buffer while it is idle.

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
use crate::app::{App, ConnectionPlace};
use crate::cores::{Audience, Broadcast, EventKey};
use crate::fanout::Delivery;
use crate::pusher::client_message::{SignIn, Subscribe};
use crate::pusher::socket_id::SocketId;
use crate::settings::SlowClients;
use crate::users::SignedIn;
use crate::websocket::Decoder;

/// A connection.
#[derive(Debug)]
pub(crate) struct ClientSession {
    pub(crate) socket_id: SocketId,
    pub(crate) app: Arc<App>,
    pub(crate) stream: Transport,
    pub(crate) decoder: Decoder,
    pub(crate) outbox: Option<Box<Outbox>>,
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) user: Option<Box<SignedIn>>,
    /// What it said, to be heard when the answers before it are written. Less than one read.
    pub(crate) unheard: Vec<u8>,
    /// What it asked for and there was no room for; it is asked again before more is heard.
    pub(crate) postponed: Option<Box<Postponed>>,
    /// Wakes the connection's task.
    pub(crate) waker: Option<Waker>,
    pub(crate) opened_at: Timestamp,
    /// When something was heard last.
    pub(crate) heard_at: Timestamp,
    /// It has subscribed to something, or signed in; perhaps no more.
    pub(crate) has_been_used: bool,
    /// The same, with a signature of the application's server.
    pub(crate) is_authorized: bool,
    pub(crate) client_events: TokenBucket,
    pub(crate) state: ConnectionState,
    /// Subscriptions that the core's bucket has still to let through before more is read.
    pub(crate) owes: u16,
    /// Its first subscription, which it pays for before anything is read.
    pub(crate) has_prepaid: bool,
    /// It stands in a queue for that.
    pub(crate) is_waiting: bool,
    _place: ConnectionPlace,
}

/// A subscription of a connection.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// The channel's number on this core.
    pub(crate) channel: u32,
    /// Where the connection is among the channel's subscribers.
    pub(crate) index: u32,
    /// As whom, on a presence channel.
    pub(crate) user_id: Option<Arc<str>>,
    /// It is told of differences of the channel's members.
    pub(crate) wants_member_changes: bool,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// Everything is fine.
    Open,
    /// A ping was sent; a sign of life is due by then.
    Pinged { until: Timestamp },
    /// The close frame is written or waits to be; the client is to close too, by then.
    Closing { until: Timestamp },
    /// Both sides have said that they close: over when nothing waits to be written, or by then.
    Leaving { until: Timestamp },
}

/// What is done later.
#[derive(Debug)]
pub(crate) enum Postponed {
    /// Others are to be told of it, on cores that had no room for that.
    Subscribe(Subscribe),
    /// The same.
    SignIn(SignIn),
    /// What a stream of events is for, when it may subscribe.
    Stream(Subscribe),
}

/// What became of something that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The socket has it.
    Written,
    /// It waits, or a part of it; so many older events were dropped for it.
    Waits { dropped: usize },
    /// The client is too slow: to be disconnected.
    TooSlow,
    /// The connection is broken.
    Broken,
}

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutboxBudget {
    pub(crate) bytes_max: usize,
    pub(crate) policy: SlowClients,
}

impl ClientSession {
    pub(crate) fn new(
        socket_id: SocketId,
        app: Arc<App>,
        place: ConnectionPlace,
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
            unheard: Vec::new(),
            postponed: None,
            waker: None,
            opened_at: now,
            heard_at: now,
            has_been_used: false,
            is_authorized: false,
            client_events: TokenBucket::default(),
            state: ConnectionState::Open,
            // The first subscription is paid for before it is read.
            owes: 1,
            has_prepaid: true,
            is_waiting: false,
            _place: place,
        }
    }

    /// What waits may be this much.
    pub(crate) fn budget(&self) -> OutboxBudget {
        let settings = self.app.settings();
        OutboxBudget { bytes_max: settings.client_queue_bytes_max, policy: settings.slow_clients }
    }

    /// Whether nothing more is to be sent or heard but the end.
    pub(crate) const fn is_closing(&self) -> bool {
        matches!(self.state, ConnectionState::Closing { .. } | ConnectionState::Leaving { .. })
    }

    /// Bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.outbox.as_ref().map_or(0, |outbox| outbox.bytes())
    }

    /// Whether something is still on its way into the socket.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.outbox.is_some() || self.stream.needs_flush()
    }

    /// Events of a channel.
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
                let mine = |one: &&Broadcast| one.audience != Audience::Except(self.socket_id);
                let mine: Vec<_> = broadcasts.iter().filter(mine).map(queued).collect();
                if mine.is_empty() {
                    return SendOutcome::Written;
                }
                for (bytes, event) in mine {
                    self.outbox.get_or_insert_default().push(bytes, event, 0);
                }
                self.settle(was_empty)
            }
        }
    }

    /// Messages for this client alone. `bytes` are whole frames.
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
            // All of them: what is begun must be known as such.
            outbox.push(Bytes::copy_from_slice(bytes), None, written);
        }
        self.fit(was_empty)
    }

    /// The frames of `broadcasts` without the first `written` bytes.
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

    /// What waits is written at once if nothing waited before.
    fn settle(&mut self, was_empty: bool) -> SendOutcome {
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
        // Its task has to wait for the socket from now on.
        if let Some(waker) = self.waker.as_ref().filter(|_| was_empty) {
            waker.wake_by_ref();
        }
        match outbox.fit(bytes_max, policy) {
            FitOutcome::Dropped(dropped) => SendOutcome::Waits { dropped },
            FitOutcome::TooSlow => SendOutcome::TooSlow,
        }
    }

    /// Writes what waits until the socket takes no more. Resolves when nothing waits.
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

    /// Whether nothing waits any more.
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

/// Bytes that one write carries of what waits for a client.
const WRITE_BYTES: usize = 4 << 10;

fn queued(broadcast: &Broadcast) -> (Bytes, Option<EventKey>) {
    (broadcast.frame.wire().clone(), broadcast.event)
}
