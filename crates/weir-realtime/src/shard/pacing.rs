//! After a restart everybody comes back in the same second. Subscriptions pass a bucket; who finds
//! it empty is not read from until it is its turn, in the order in which they came: what it has
//! said waits in the kernel, and costs no memory here.

use std::rc::Rc;
use std::time::Duration;

use super::Shard;
use super::state::ShardState;
use crate::cores::SessionKey;
use crate::metrics::LimitKind;
use crate::session::Postponed;

/// How long the pacing sleeps at least: many are let through at once rather than each by a timer.
const PACE: Duration = Duration::from_millis(2);

impl Shard {
    /// Whether the connection may be read from: pays what it owes.
    pub(super) fn may_subscribe(&self, state: &mut ShardState, key: SessionKey) -> bool {
        // Those who wait go first.
        let is_waiting = state.session(key).is_waiting;
        if !is_waiting && state.waiting.is_empty() && self.pay(state, key) {
            return true;
        }
        if !std::mem::replace(&mut state.session(key).is_waiting, true) {
            self.hub.metrics.limit_hit(LimitKind::SubscribeRate);
            state.waiting.push_back(key);
            self.paced.notify_one();
        }
        false
    }

    /// What the connection asked for finds no room on a core at the moment. It is asked again after
    /// [`PACE`] and after those who wait already; until then the connection is not read from.
    pub(super) fn postpone(&self, state: &mut ShardState, key: SessionKey, what: Postponed) {
        let session = state.session(key);
        session.postponed = Some(Box::new(what));
        session.owes = session.owes.max(1);
        if !std::mem::replace(&mut session.is_waiting, true) {
            state.postponed.push_back(key);
            self.paced.notify_one();
        }
    }

    fn pay(&self, state: &mut ShardState, key: SessionKey) -> bool {
        let rate = self.hub.settings().limits.subscribe_rate;
        let now = self.hub.clock.now();
        while state.session(key).owes > 0 {
            if state.subscribe_bucket.take(rate, now).is_err() {
                return false;
            }
            state.session(key).owes -= 1;
        }
        true
    }

    /// Lets those through who wait, as the bucket fills.
    pub(super) async fn pace(self: Rc<Self>) {
        loop {
            self.paced.notified().await;
            while !self.let_through() {
                tokio::time::sleep(PACE).await;
                self.requeue();
            }
        }
    }

    /// Those who were postponed wait with the others from now on.
    pub(super) fn requeue(&self) {
        let ShardState { waiting, postponed, .. } = &mut *self.state.borrow_mut();
        waiting.append(postponed);
    }

    /// Whether nobody waits any more.
    pub(super) fn let_through(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        while let Some(key) = state.waiting.front().copied() {
            // It may be gone, and its number somebody else's, who waits for nothing.
            let waits = state.sessions.get(key as usize).is_some_and(|session| session.is_waiting);
            if waits {
                if !self.pay(state, key) {
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
