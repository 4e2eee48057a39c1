//! Channels that the node's task is to visit: to compare them with the log, or to send their members.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use weir_realtime::shared_log::ChannelKey;

/// Channels that are to be visited, each once. Bounded by the number of channels that the node holds.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// A lock of std: held for a lookup, never across an await.
    channels: Mutex<RequestedChannels>,
    added: Notify,
}

#[derive(Debug, Default)]
struct RequestedChannels {
    now: HashSet<ChannelKey>,
    /// Those that wait until the cores have room, in the order in which they are looked at.
    order: VecDeque<ChannelKey>,
    delayed: HashSet<ChannelKey>,
    /// Those that wait because Redis rejects their commands for now.
    postponed: HashSet<ChannelKey>,
}

impl Requests {
    /// Requests a visit, unless the channel waits.
    pub(crate) fn add(&self, key: ChannelKey) {
        let mut channels = self.lock();
        let waits = channels.delayed.contains(&key) || channels.postponed.contains(&key);
        if !waits && channels.now.insert(key) {
            self.added.notify_one();
        }
    }

    /// Requests a visit at the next attempt, because Redis rejects it for now.
    pub(crate) fn postpone(&self, key: ChannelKey) {
        let mut channels = self.lock();
        channels.now.remove(&key);
        channels.postponed.insert(key);
    }

    /// Returns whether Redis rejects this channel for now.
    pub(crate) fn is_postponed(&self, key: &ChannelKey) -> bool {
        self.lock().postponed.contains(key)
    }

    /// Returns whether channels wait for the next attempt.
    pub(crate) fn has_postponed(&self) -> bool {
        !self.lock().postponed.is_empty()
    }

    /// Requests visits of all channels that wait for the next attempt.
    pub(crate) fn retry_postponed(&self) {
        let postponed = std::mem::take(&mut self.lock().postponed);
        postponed.into_iter().for_each(|key| self.add(key));
    }

    /// Requests a comparison for when the cores have room.
    pub(crate) fn delay(&self, key: ChannelKey) {
        let mut channels = self.lock();
        channels.now.remove(&key);
        if channels.delayed.insert(key.clone()) {
            channels.order.push_back(key);
        }
    }

    /// Returns whether channels wait for room.
    pub(crate) fn has_delayed(&self) -> bool {
        !self.lock().order.is_empty()
    }

    /// Looks at up to `max` channels that wait, and requests those that have room.
    pub(crate) fn resume(&self, max: usize, has_room: impl Fn(&ChannelKey) -> bool) {
        let candidates: Vec<ChannelKey> = {
            let order = &mut self.lock().order;
            let count = max.min(order.len());
            order.drain(..count).collect()
        };
        for key in candidates {
            let has_room = has_room(&key);
            let mut channels = self.lock();
            if !has_room {
                channels.order.push_back(key);
                continue;
            }
            channels.delayed.remove(&key);
            channels.now.insert(key);
            self.added.notify_one();
        }
    }

    /// Waits until there is a channel.
    pub(crate) async fn added(&self) {
        while self.lock().now.is_empty() {
            self.added.notified().await;
        }
    }

    /// Takes at most `max` channels.
    pub(crate) fn take(&self, max: usize) -> Vec<ChannelKey> {
        let mut channels = self.lock();
        let taken: Vec<ChannelKey> = channels.now.iter().take(max).cloned().collect();
        for key in &taken {
            channels.now.remove(key);
        }
        taken
    }

    fn lock(&self) -> MutexGuard<'_, RequestedChannels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(channel: &str) -> ChannelKey {
        ChannelKey { app: "1".into(), channel: channel.into() }
    }

    #[test]
    fn a_channel_that_waits_for_room_is_requested_once_it_has_room() {
        let requests = Requests::default();
        requests.add(key("a"));
        requests.delay(key("a"));
        requests.delay(key("b"));
        requests.add(key("b"));
        assert!(requests.take(9).is_empty());
        requests.resume(1, |_| false);
        requests.resume(1, |key| &*key.channel == "b");
        assert_eq!(requests.take(9), [key("b")], "each is looked at in turn");
        assert!(requests.has_delayed());
        requests.resume(9, |_| true);
        assert_eq!(requests.take(9), [key("a")]);
        assert!(!requests.has_delayed());
    }

    #[test]
    fn a_channel_that_redis_rejects_waits_for_the_next_attempt() {
        let requests = Requests::default();
        requests.add(key("a"));
        requests.postpone(key("a"));
        requests.add(key("a"));
        assert!(requests.is_postponed(&key("a")) && requests.take(9).is_empty());
        requests.retry_postponed();
        assert!(!requests.has_postponed());
        assert_eq!(requests.take(9), [key("a")]);
    }
}
