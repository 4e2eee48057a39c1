//! After a restart, all clients reconnect within a second. Subscriptions take tokens from a bucket.
//! A connection that finds it empty is not read from until its turn, in order of arrival. Its
//! messages wait in the kernel and take no memory here.

use std::rc::Rc;
use std::time::Duration;

use super::Shard;
use super::state::ShardState;
use crate::cores::SessionKey;
use crate::metrics::LimitKind;
use crate::session::Postponed;

/// The shortest sleep between attempts. Several connections proceed after each sleep, instead of
/// one timer for each.
const PACE: Duration = Duration::from_millis(2);

impl Shard {
    /// Takes tokens for the connection's pending subscriptions. Returns whether it may be read
    /// from; if not, queues it.
    pub(super) fn may_subscribe(&self, state: &mut ShardState, key: SessionKey) -> bool {
        // Connections that are already waiting go first.
        let is_waiting = state.session(key).is_waiting;
        if !is_waiting && state.waiting.is_empty() && self.take_tokens(state, key) {
            return true;
        }
        if !std::mem::replace(&mut state.session(key).is_waiting, true) {
            self.hub.metrics.limit_hit(LimitKind::SubscribeRate);
            state.waiting.push_back(key);
            self.pacing_needed.notify_one();
        }
        false
    }

    /// Postpones a request because a core has no room. It is retried after [`PACE`], and after the
    /// connections that already wait. The connection is not read from until then.
    pub(super) fn postpone(&self, state: &mut ShardState, key: SessionKey, request: Postponed) {
        let session = state.session(key);
        session.postponed = Some(Box::new(request));
        session.unpaid_subscriptions = session.unpaid_subscriptions.max(1);
        if !std::mem::replace(&mut session.is_waiting, true) {
            state.postponed.push_back(key);
            self.pacing_needed.notify_one();
        }
    }

    fn take_tokens(&self, state: &mut ShardState, key: SessionKey) -> bool {
        let rate = self.hub.settings().limits.subscribe_rate;
        let now = self.hub.clock.now();
        while state.session(key).unpaid_subscriptions > 0 {
            if state.subscribe_bucket.take(rate, now).is_err() {
                return false;
            }
            state.session(key).unpaid_subscriptions -= 1;
        }
        true
    }

    /// Lets waiting connections proceed as the bucket fills.
    pub(super) async fn run_pacing(self: Rc<Self>) {
        loop {
            self.pacing_needed.notified().await;
            while !self.resume_waiting() {
                tokio::time::sleep(PACE).await;
                self.requeue();
            }
        }
    }

    /// Moves postponed connections to the end of the waiting ones.
    pub(super) fn requeue(&self) {
        let ShardState { waiting, postponed, .. } = &mut *self.state.borrow_mut();
        waiting.append(postponed);
    }

    /// Lets waiting connections proceed while the bucket has tokens. Returns whether none waits any
    /// more.
    pub(super) fn resume_waiting(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        while let Some(key) = state.waiting.front().copied() {
            // The connection may be gone, and its number may belong to another one that does not
            // wait.
            let waits = state.sessions.get(key as usize).is_some_and(|session| session.is_waiting);
            if waits {
                if !self.take_tokens(state, key) {
                    return false;
                }
                let session = state.session(key);
                session.is_waiting = false;
                if let Some(waker) = &session.waker {
                    waker.wake_by_ref();
                }
            }
            state.waiting.pop_front();
        }
        state.postponed.is_empty()
    }
}
