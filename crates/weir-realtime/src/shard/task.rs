//! A connection's task reads input and writes the outbox.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::Shard;
use super::close_reason::CloseReason;
use super::state::ShardState;
use crate::cores::{SessionKey, key_of};
use crate::pusher::socket_id::SocketId;
use crate::session::ConnectionState;

/// The most reads of one connection before its task yields.
const READS_PER_TURN: usize = 4;

impl Shard {
    /// Spawns the task that serves the connection until it is removed.
    pub(super) fn spawn(self: &Rc<Self>, socket_id: SocketId) {
        let shard = Rc::clone(self);
        tokio::task::spawn_local(poll_fn(move |context| shard.poll(socket_id, context)));
    }

    fn poll(&self, socket_id: SocketId, context: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.state.borrow_mut();
        let key = key_of(socket_id);
        if state.session_of(socket_id).is_none() {
            return Poll::Ready(());
        }
        let session = state.session(key);
        if !session.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            session.waker = Some(context.waker().clone());
        }
        match self.poll_parts(state, key, context) {
            Ok(()) => {}
            Err(_) => self.close(state, key, CloseReason::Gone),
        }
        match state.session_of(socket_id) {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        }
    }

    fn poll_parts(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        self.poll_write(state, key, context)?;
        for _ in 0..READS_PER_TURN {
            if state.session(key).unpaid_subscriptions > 0 && !self.may_subscribe(state, key) {
                return Ok(());
            }
            if self.poll_input(state, key, context)?.is_pending() {
                return Ok(());
            }
            if !state.sessions.contains(key as usize) {
                return Ok(());
            }
            self.poll_write(state, key, context)?;
        }
        // More input may be waiting; continue after other tasks.
        context.waker().wake_by_ref();
        Ok(())
    }

    /// Retries a postponed request, or processes input that waited for responses to be written, or
    /// reads more.
    fn poll_input(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let ShardState { sessions, input, .. } = state;
        let session = &mut sessions[key as usize];
        if session.postponed.is_some() {
            self.take_postponed(state, key);
            return Poll::Ready(Ok(()));
        }
        if !session.unprocessed.is_empty() {
            if session.has_unwritten() {
                return Poll::Pending;
            }
            self.resume_input(state, key);
            return Poll::Ready(Ok(()));
        }
        let bytes = ready!(session.stream.poll_read(context, input))?;
        if bytes == 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.on_input(state, key, bytes);
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &self,
        state: &mut ShardState,
        key: SessionKey,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        let ShardState { sessions, write_buffer, .. } = state;
        let session = &mut sessions[key as usize];
        let mut is_written = true;
        if session.has_unwritten() {
            let before = session.waiting_bytes();
            let written = session.poll_write_waiting(context, write_buffer);
            self.hub.metrics.queue_changed(before, session.waiting_bytes());
            is_written = written?.is_ready();
        }
        if is_written && matches!(session.state, ConnectionState::Leaving { .. }) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }
}
