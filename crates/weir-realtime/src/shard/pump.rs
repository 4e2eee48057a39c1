//! Writing published messages to the core's connections.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use super::Shard;
use super::close_reason::CloseReason;
use super::state::ShardState;
use crate::cores::{CoreMessage, CoreMessages, DirectPayload};
use crate::metrics::TurnCounts;
use crate::pusher::close_code::CloseCode;
use crate::pusher::socket_id::SocketId;
use crate::session::SendOutcome;

impl Shard {
    /// Receives messages and delivers them in turns, until the core ends.
    pub(super) async fn pump(self: Rc<Self>) {
        let mut messages = CoreMessages::new();
        loop {
            self.receive(&mut messages).await;
            let has_more = {
                let state = &mut *self.state.borrow_mut();
                for message in messages.drain(..) {
                    self.handle_message(state, message);
                }
                self.deliver_turn(state);
                state.has_work()
            };
            if has_more {
                // Give readers, new connections and requests a turn.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Resolves with the waiting messages, or without any if deliveries are pending.
    async fn receive(&self, messages: &mut CoreMessages) {
        let mailbox = &self.hub.cores.get(self.index).mailbox;
        poll_fn(|context| match mailbox.poll_take(context, messages) {
            Poll::Pending if !self.state.borrow().has_work() => Poll::Pending,
            _ => Poll::Ready(()),
        })
        .await;
    }

    pub(super) fn handle_message(&self, state: &mut ShardState, message: CoreMessage) {
        match message {
            CoreMessage::Broadcast(broadcast) => state.sort_in(broadcast),
            CoreMessage::Direct(direct) => state.direct.push_back(direct),
            CoreMessage::Disconnect { to, app, reply, budget } => {
                let key = state.session_of(to);
                let key = key.filter(|key| state.session(*key).app.number == app);
                if let Some(key) = key {
                    self.close(state, key, CloseReason::Code(CloseCode::Unauthorized));
                }
                drop(budget);
                // The requester may have given up.
                let _ = reply.send(key.is_some());
            }
            CoreMessage::CloseApp { app } => self.begin_app_end(state, app),
        }
    }

    /// Delivers to at most `writes_per_turn_max` subscribers, and sends direct messages to as many
    /// connections, so that neither kind delays the other.
    pub(super) fn deliver_turn(&self, state: &mut ShardState) {
        let settings = self.hub.settings();
        let limits = &settings.limits;
        let mut remaining = limits.writes_per_turn_max.max(1);
        self.deliver_direct(state, remaining);
        let mut counts = TurnCounts::default();
        let ShardState { sessions, channels, ready, broken, .. } = state;
        while remaining > 0 {
            let Some(slot) = ready.pop_front() else { break };
            let local = &mut channels[slot as usize];
            let mut slowed = 0;
            let progress =
                local.fanout.deliver_turn(remaining, limits.write_bytes_max, |key, delivery| {
                    let session = &mut sessions[key as usize];
                    counts.count(&delivery);
                    let before = session.waiting_bytes();
                    match session.deliver(delivery) {
                        SendOutcome::Written => {}
                        SendOutcome::Waits { dropped } => {
                            slowed += u64::from(dropped > 0);
                            counts.waits(before, session, dropped);
                        }
                        SendOutcome::TooSlow => {
                            slowed += 1;
                            counts.waits(before, session, 0);
                            broken.push((key, CloseReason::Slow));
                        }
                        SendOutcome::Broken => {
                            counts.waits(before, session, 0);
                            broken.push((key, CloseReason::Gone));
                        }
                    }
                });
            if slowed > 0 {
                local.channel.slowed(slowed);
            }
            // Visiting an empty channel also counts.
            remaining -= progress.subscribers.clamp(1, remaining);
            if let Some(published_at) = local.fanout.take_finished() {
                let took = self.hub.clock.now().since(published_at);
                self.hub.metrics.delivered_after(took.as_secs_f64());
            }
            local.is_ready = progress.has_more;
            if progress.has_more {
                ready.push_back(slot);
            }
        }
        self.hub.metrics.record_turn(&counts);
        self.end_broken(state);
    }

    fn deliver_direct(&self, state: &mut ShardState, mut remaining: usize) {
        while remaining > 0
            && let Some(mut direct) = state.direct.pop_front()
        {
            let rest = direct.recipients.len().saturating_sub(remaining);
            remaining -= direct.recipients.len() - rest;
            for recipient in direct.recipients.drain(rest..) {
                self.send_direct(state, recipient, &direct.payload);
            }
            if !direct.recipients.is_empty() {
                state.direct.push_front(direct);
            }
        }
    }

    fn send_direct(&self, state: &mut ShardState, recipient: SocketId, payload: &DirectPayload) {
        let Some(key) = state.session_of(recipient) else { return };
        match payload {
            // No message may follow a close frame.
            DirectPayload::Frame(_) if state.session(key).is_closing() => {}
            DirectPayload::Frame(frame) => self.send(state, key, frame.wire()),
            DirectPayload::Close(code) => self.close(state, key, CloseReason::Code(*code)),
        }
    }

    fn end_broken(&self, state: &mut ShardState) {
        for (key, reason) in std::mem::take(&mut state.broken) {
            // A connection may be listed twice, for two channels.
            if state.sessions.contains(key as usize) {
                self.close(state, key, reason);
            }
        }
    }
}

impl TurnCounts {
    #[inline]
    fn count(&mut self, delivery: &crate::fanout::Delivery<'_>) {
        use crate::fanout::Delivery;
        match delivery {
            Delivery::Joined { broadcasts, joined } => {
                self.deliveries += broadcasts.len() as u64;
                self.bytes += joined.len() as u64;
            }
            Delivery::Each(broadcasts) => {
                self.deliveries += broadcasts.len() as u64;
                let bytes: usize = broadcasts.iter().map(|one| one.frame.wire().len()).sum();
                self.bytes += bytes as u64;
            }
        }
    }

    fn waits(&mut self, before: usize, session: &crate::session::ClientSession, dropped: usize) {
        let after = session.waiting_bytes();
        self.queued_bytes += (after.cast_signed() - before.cast_signed()) as i64;
        self.slow_clients += i64::from(after > 0) - i64::from(before > 0);
        self.dropped += dropped as u64;
    }
}
