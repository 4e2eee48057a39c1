//! A channel as a stream of server-sent events: an HTTP response that lasts until the client
//! leaves, the app ends, or the client reads too slowly.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};

use super::Shard;
use super::close_reason::CloseReason;
use super::state::ShardState;
use crate::app::{App, ConnectionQuota};
use crate::cores::SessionKey;
use crate::pusher::channel::ChannelName;
use crate::pusher::client_message::Subscribe;
use crate::pusher::position::ChannelPosition;
use crate::pusher::socket_id::SocketId;
use crate::session::{Postponed, Transport};
use crate::sse;

/// The range of random reconnection delays, so that browsers don't reconnect all at once.
const RETRY_MS: std::ops::Range<u64> = 1_000..3_000;

/// A request for a channel as an event stream.
pub(crate) struct EventStreamRequest {
    pub(crate) app: Arc<App>,
    pub(crate) quota: ConnectionQuota,
    pub(crate) channel: ChannelName,
    /// The position of the last event that the client has.
    pub(crate) after: Option<ChannelPosition>,
}

/// The response body. It takes messages from its connection's outbox.
pub(crate) struct EventStream {
    shard: Rc<Shard>,
    socket_id: SocketId,
    /// Text to send before anything else.
    greeting: Option<String>,
}

impl Shard {
    /// Opens an event stream, as a connection that only receives. The caller has checked the
    /// permission. The response begins at once, even if the subscription must wait for the token
    /// bucket: on any status but 200, browsers do not reconnect (HTML, "Server-sent events": fail
    /// the connection).
    pub(crate) fn stream_events(self: &Rc<Self>, request: EventStreamRequest) -> EventStream {
        let EventStreamRequest { app, quota, channel, after } = request;
        let state = &mut *self.state.borrow_mut();
        let (key, socket_id) = self.register(state, app, quota, Transport::Events);
        let subscribe = Subscribe {
            channel,
            auth: None,
            channel_data: None,
            recover: after,
            member_changes: false,
        };
        state.session(key).postponed = Some(Box::new(Postponed::Stream(subscribe)));
        self.begin_stream(state, key);
        let mut greeting = String::new();
        sse::write_retry(&mut greeting, fastrand::u64(RETRY_MS));
        EventStream { shard: Rc::clone(self), socket_id, greeting: Some(greeting) }
    }

    /// Subscribes if that is still pending and the token bucket allows it.
    fn begin_stream(&self, state: &mut ShardState, key: SessionKey) {
        let session = state.session(key);
        if session.postponed.is_some()
            && (session.unpaid_subscriptions == 0 || self.may_subscribe(state, key))
        {
            self.take_postponed(state, key);
        }
    }

    pub(super) fn subscribe_stream(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        request: Subscribe,
    ) {
        let mut output = Vec::new();
        self.subscribe_authorised(state, key, request, &mut output);
        if !output.is_empty() {
            self.send(state, key, &output);
        }
        let session = state.session(key);
        if session.subscriptions.is_empty() && session.postponed.is_none() {
            // The error was sent. The client reconnects later.
            self.reply_to_close(state, key, None);
        }
    }

    /// Removes and returns the messages queued for a stream, or None if there are none.
    pub(super) fn take_waiting(
        &self,
        state: &mut ShardState,
        socket_id: SocketId,
    ) -> Option<String> {
        let key = state.session_of(socket_id)?;
        let session = state.session(key);
        let before = session.waiting_bytes();
        let mut outbox = session.outbox.take()?;
        let mut text = String::with_capacity(before + before / 4);
        for wire in outbox.take() {
            sse::write_events(&mut text, &wire);
        }
        self.hub.metrics.queue_changed(before, 0);
        Some(text)
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(greeting) = self.greeting.take() {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(greeting)))));
        }
        let socket_id = self.socket_id;
        let state = &mut *self.shard.state.borrow_mut();
        if let Some(key) = state.session_of(socket_id) {
            state.session(key).waker = Some(context.waker().clone());
            self.shard.begin_stream(state, key);
        }
        let waiting = self.shard.take_waiting(state, socket_id);
        let Some(key) = state.session_of(socket_id) else { return Poll::Ready(None) };
        let session = state.session(key);
        match waiting {
            Some(text) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(text))))),
            None if session.is_closing() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        let state = &mut *self.shard.state.borrow_mut();
        if let Some(key) = state.session_of(self.socket_id) {
            self.shard.close(state, key, CloseReason::Gone);
        }
    }
}
