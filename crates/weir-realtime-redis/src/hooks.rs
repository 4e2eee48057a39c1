//! Webhooks about subscribers and members that this node must send.
//!
//! Redis notes each of them in the step that changes the subscriptions or members, until it is settled
//! here. If this node ends before that, the node that removes it takes them over. Those of channels and
//! members that left wait for a while, in which any node may cancel them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::{Pipeline, RedisResult, Value};
use tokio::time::Instant;
use weir_realtime::hub::Hub;
use weir_realtime::shared_log::{ChannelKey, SharedChange, SharedWebhook};
use weir_realtime::webhooks::{HeldMax, Receipt};

use crate::command_connection::CommandConnection;
use crate::identities::Identities;
use crate::keys::Keys;
use crate::partition::Partition;
use crate::rejections::{RETRY, accepted};
use crate::scripts;

/// Webhooks that are released, or reported as settled, in one round trip.
const BATCH_MAX: usize = 256;

/// The webhooks of this node, over all connections to Redis.
#[derive(Debug, Default)]
pub(crate) struct Hooks(Mutex<HookQueue>);

#[derive(Debug, Default)]
struct HookQueue {
    held: VecDeque<HeldHook>,
    /// Those that Redis has rejected, which hold no others back: only a part of a cluster may be away.
    rejected: VecDeque<HeldHook>,
    /// When some of those are released again.
    retry_at: Option<Instant>,
    /// The bytes of both.
    held_bytes: usize,
    /// The ids of both.
    held_ids: HashSet<String>,
    /// Those that were sent, by id.
    sent: HashMap<String, SentHook>,
}

#[derive(Clone, Debug, PartialEq)]
struct HeldHook {
    due: Instant,
    hook: NotedHook,
}

#[derive(Debug)]
struct SentHook {
    partition: Partition,
    receipt: Receipt,
}

/// A webhook as Redis has noted it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NotedHook {
    webhook: SharedWebhook,
    /// What a change that cancels it looks for.
    subject: String,
}

/// Webhooks that are released in one round trip: the first ones of each list.
#[derive(Debug, PartialEq)]
struct DueHooks {
    held: Vec<HeldHook>,
    rejected: Vec<HeldHook>,
}

impl HookQueue {
    fn push(&mut self, hook: NotedHook, due: Instant, is_first: bool) {
        self.note(&hook);
        let held = HeldHook { due, hook };
        if is_first {
            self.held.push_front(held);
        } else {
            self.held.push_back(held);
        }
    }

    fn note(&mut self, hook: &NotedHook) {
        self.held_ids.insert(hook.webhook.id.clone());
        self.held_bytes += hook.bytes();
    }

    fn reject(&mut self, held: HeldHook) {
        self.note(&held.hook);
        self.rejected.push_back(held);
    }

    /// Returns how many of the oldest exceed the limits, of those that are released in one round trip.
    fn excess(&self, max: HeldMax) -> usize {
        let mut events = self.held.len() + self.rejected.len();
        let mut bytes = self.held_bytes;
        let exceeds = |held: &&HeldHook| {
            let is_beyond = events > max.events || bytes > max.bytes;
            (events, bytes) = (events - 1, bytes - held.hook.bytes());
            is_beyond
        };
        self.held.iter().take(BATCH_MAX).take_while(exceeds).count()
    }
}

impl HookQueue {
    /// Removes webhooks that were released, which are the first ones.
    fn forget(&mut self, released: &DueHooks) {
        let held = self.held.drain(..released.held.len());
        for held in held.chain(self.rejected.drain(..released.rejected.len())) {
            self.held_bytes -= held.hook.bytes();
            self.held_ids.remove(&held.hook.webhook.id);
        }
    }
}

impl Hooks {
    /// Adds new webhooks: each id is followed by what it is.
    pub(crate) fn add(&self, hub: &Hub, words: &[String]) {
        for pair in words.chunks_exact(2) {
            if let Some(hook) = NotedHook::parse(&pair[0], &pair[1]) {
                let may_be_cancelled = hook.webhook.change.may_be_cancelled();
                self.add_one(hub, hook, may_be_cancelled);
            }
        }
    }

    /// Adds webhooks of a node that has ended, unless this node has them: each id is followed by what it
    /// is, and 1 if it still waits.
    pub(crate) fn take_over(&self, hub: &Hub, words: &[String]) {
        for three in words.chunks_exact(3) {
            let is_known = {
                let queue = self.lock();
                queue.held_ids.contains(&three[0]) || queue.sent.contains_key(&three[0])
            };
            if !is_known && let Some(hook) = NotedHook::parse(&three[0], &three[1]) {
                self.add_one(hub, hook, three[2] == "1");
            }
        }
    }

    /// Settles new webhooks without sending them.
    pub(crate) fn cancel(&self, words: &[String]) {
        for pair in words.chunks_exact(2) {
            if let Some(NotedHook { webhook, .. }) = NotedHook::parse(&pair[0], &pair[1]) {
                let partition = Partition::of(&webhook.key);
                let sent = SentHook { partition, receipt: Receipt::default() };
                self.lock().sent.insert(webhook.id, sent);
            }
        }
    }

    /// Sends a webhook, now or when it can no longer be cancelled.
    fn add_one(&self, hub: &Hub, hook: NotedHook, waits: bool) {
        if !waits {
            return self.send(hub, &hook.webhook);
        }
        let now = Instant::now();
        if hub.wants_shared_webhooks(&hook.webhook.key) {
            return self.hold(hook, now + hub.vacated_delay());
        }
        // One that nobody receives is only removed from Redis.
        self.lock().push(hook, now, true);
    }

    fn send(&self, hub: &Hub, webhook: &SharedWebhook) {
        let (receipt, partition) = (Receipt::default(), Partition::of(&webhook.key));
        let sent = SentHook { partition, receipt: receipt.clone() };
        self.lock().sent.insert(webhook.id.clone(), sent);
        hub.send_shared_webhook(webhook, receipt);
    }

    /// Returns when the next webhooks are to be released.
    pub(crate) fn next_due(&self, max: HeldMax) -> Option<Instant> {
        let queue = self.lock();
        let is_excess = queue.excess(max) > 0;
        let next = queue.held.front().map(|held| if is_excess { Instant::now() } else { held.due });
        next.into_iter().chain(queue.retry_at).min()
    }

    /// Releases webhooks that are due: sends those that no change has cancelled.
    pub(crate) async fn release(
        &self,
        keys: &Keys,
        hub: &Hub,
        connection: &mut CommandConnection,
    ) -> RedisResult<()> {
        let due = self.due(hub.webhooks_held_max());
        if due.held.is_empty() && due.rejected.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::with_capacity(2 * BATCH_MAX);
        for HeldHook { hook, .. } in due.held.iter().chain(&due.rejected) {
            let NotedHook { webhook, subject } = hook;
            let partition = Partition::of(&webhook.key);
            pipeline.add_command(scripts::release_hook(keys, partition, subject, &webhook.id));
        }
        let replies: Vec<Value> = pipeline.ignore_errors().query_async(connection).await?;
        let results: Vec<Option<bool>> =
            replies.into_iter().map(accepted).collect::<RedisResult<_>>()?;
        let (early, sent) = self.settle_released(due, &results);
        hub.count_early_webhooks(early);
        for hook in sent {
            self.send(hub, &hook.webhook);
        }
        Ok(())
    }

    /// Keeps those that Redis has rejected. Returns the others that no change has cancelled, and how many of them are
    /// sent early.
    fn settle_released(
        &self,
        released: DueHooks,
        results: &[Option<bool>],
    ) -> (usize, Vec<NotedHook>) {
        let now = Instant::now();
        let (mut early, mut sent) = (0, Vec::new());
        let queue = &mut *self.lock();
        queue.forget(&released);
        let is_rejected_again = results[released.held.len()..].contains(&None);
        for (held, result) in released.held.into_iter().chain(released.rejected).zip(results) {
            match result {
                Some(true) => {
                    early += usize::from(held.due > now);
                    sent.push(held.hook);
                }
                Some(false) => {}
                None => queue.reject(held),
            }
        }
        let retry_at = queue.retry_at.filter(|_| !is_rejected_again).unwrap_or(now + RETRY);
        queue.retry_at = (!queue.rejected.is_empty()).then_some(retry_at);
        (early, sent)
    }

    /// Holds a webhook until then, after those that are held already.
    fn hold(&self, hook: NotedHook, due: Instant) {
        self.lock().push(hook, due, false);
    }

    /// Returns those that are to be released now.
    fn due(&self, max: HeldMax) -> DueHooks {
        let (queue, now) = (self.lock(), Instant::now());
        let excess = queue.excess(max);
        let some = queue.held.iter().take(BATCH_MAX).enumerate();
        let held = some.take_while(|(index, held)| held.due <= now || *index < excess);
        let is_retried = queue.retry_at.is_some_and(|at| at <= now);
        let rejected = queue.rejected.iter().take(if is_retried { BATCH_MAX } else { 0 });
        DueHooks {
            held: held.map(|(_, held)| held.clone()).collect(),
            rejected: rejected.cloned().collect(),
        }
    }

    /// Removes webhooks that are settled from Redis. Returns whether none is being sent.
    pub(crate) async fn settle(
        &self,
        keys: &Keys,
        identities: &Identities,
        connection: &mut CommandConnection,
    ) -> RedisResult<bool> {
        loop {
            let settled = self.settled();
            if settled.is_empty() {
                return Ok(self.lock().sent.is_empty());
            }
            // They may still be under an earlier identity.
            let nodes = identities.all();
            let mut pipeline = Pipeline::with_capacity(settled.len() * nodes.len());
            for (id, partition) in &settled {
                for node in &nodes {
                    pipeline.cmd("HDEL").arg(keys.hooks_of(node, *partition)).arg(id);
                }
            }
            let replies: Vec<Value> = pipeline.ignore_errors().query_async(connection).await?;
            let results: Vec<Option<Value>> =
                replies.into_iter().map(accepted).collect::<RedisResult<_>>()?;
            let mut queue = self.lock();
            let mut is_complete = true;
            for ((id, _), removed) in settled.iter().zip(results.chunks(nodes.len().max(1))) {
                match removed.iter().all(Option::is_some) {
                    true => drop(queue.sent.remove(id)),
                    false => is_complete = false,
                }
            }
            if !is_complete {
                // The rest with the next heartbeat.
                return Ok(false);
            }
        }
    }

    /// Returns whether this node has no webhook to send.
    pub(crate) fn is_empty(&self) -> bool {
        let queue = self.lock();
        queue.sent.is_empty() && queue.held.is_empty() && queue.rejected.is_empty()
    }

    fn settled(&self) -> Vec<(String, Partition)> {
        let queue = self.lock();
        let settled = queue.sent.iter().filter(|(_, sent)| sent.receipt.is_settled());
        settled.take(BATCH_MAX).map(|(id, sent)| (id.clone(), sent.partition)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HookQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NotedHook {
    /// Returns the bytes of its texts.
    fn bytes(&self) -> usize {
        self.webhook.id.len() + self.subject.len()
    }

    fn parse(id: &str, text: &str) -> Option<Self> {
        let (letter, rest) = text.split_at_checked(1)?;
        let (entry, user) = rest.split_once('\n')?;
        let (app, channel) = entry.split_once(':')?;
        let change = match letter {
            "o" => SharedChange::Occupied,
            "v" => SharedChange::Vacated,
            "a" => SharedChange::MemberAdded(user.to_owned()),
            "r" => SharedChange::MemberRemoved(user.to_owned()),
            _ => return None,
        };
        let key = ChannelKey { app: app.into(), channel: channel.into() };
        let kind = if matches!(letter, "o" | "v") { 'c' } else { 'm' };
        let webhook = SharedWebhook { id: id.to_owned(), key, change };
        Some(Self { webhook, subject: format!("{kind}{rest}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_read_as_scripts_write_it() {
        let hook = NotedHook::parse("7-0", "r1:presence-a\nada\nb").unwrap();
        assert_eq!(hook.webhook.change, SharedChange::MemberRemoved("ada\nb".to_owned()));
        assert_eq!((&*hook.webhook.key.app, &*hook.webhook.key.channel), ("1", "presence-a"));
        assert_eq!(hook.subject, "m1:presence-a\nada\nb");
        assert_eq!(NotedHook::parse("7-0", "v1:a\n").unwrap().subject, "c1:a\n");
        for broken in ["", "v", "v1:a", "x1:a\n", "va\n", "ü1:a\n"] {
            assert_eq!(NotedHook::parse("7-0", broken), None, "{broken:?}");
        }
    }

    #[test]
    fn the_oldest_webhooks_beyond_the_limits_are_released_early() {
        let hooks = Hooks::default();
        let later = Instant::now() + std::time::Duration::from_secs(60);
        for id in ["1-0", "2-0", "3-0"] {
            hooks.hold(NotedHook::parse(id, "v1:a\n").unwrap(), later);
        }
        let bytes = 3 * ("1-0".len() + "c1:a\n".len());
        for (max, released) in [
            (HeldMax { events: 3, bytes }, vec![]),
            (HeldMax { events: 2, bytes }, vec!["1-0"]),
            (HeldMax { events: 3, bytes: bytes - 1 }, vec!["1-0"]),
            (HeldMax { events: 3, bytes: 0 }, vec!["1-0", "2-0", "3-0"]),
        ] {
            assert_eq!(ids(&hooks.due(max)), released, "{max:?}");
            assert_eq!(hooks.next_due(max) < Some(later), !released.is_empty(), "{max:?}");
        }
        let first = hooks.due(HeldMax { events: 2, bytes });
        assert_eq!(hooks.settle_released(first, &[Some(true)]).0, 1, "it is early");
        assert!(ids(&hooks.due(HeldMax { events: 2, bytes: 2 * bytes / 3 })).is_empty());
    }

    #[test]
    fn webhooks_that_redis_rejects_wait_hold_no_others_back_and_only_sent_ones_are_early() {
        let hooks = Hooks::default();
        let now = Instant::now();
        let later = now + std::time::Duration::from_secs(60);
        for id in ["1-0", "2-0", "3-0", "4-0"] {
            hooks.hold(NotedHook::parse(id, "v1:a\n").unwrap(), later);
        }
        let none = HeldMax { events: 0, bytes: 0 };
        let (early, sent) =
            hooks.settle_released(hooks.due(none), &[Some(true), Some(false), None, Some(true)]);
        let sent: Vec<&str> = sent.iter().map(|hook| hook.webhook.id.as_str()).collect();
        assert_eq!((early, sent), (2, vec!["1-0", "4-0"]));
        let retry_at = hooks.next_due(none).unwrap();
        assert!(retry_at >= now + RETRY && !hooks.is_empty());
        hooks.hold(NotedHook::parse("5-0", "v1:a\n").unwrap(), later);
        assert!(hooks.next_due(none).unwrap() < retry_at);
        let due = hooks.due(HeldMax { events: 1, bytes: usize::MAX });
        assert_eq!(ids(&due), ["5-0"], "the rejected one counts, and waits");
        hooks.settle_released(due, &[None]);
        assert_eq!(
            hooks.next_due(none),
            Some(retry_at),
            "rejections of others delay it no further"
        );
        hooks.lock().retry_at = Some(now);
        let due = hooks.due(none);
        assert_eq!(ids(&due), ["3-0", "5-0"]);
        assert_eq!(hooks.settle_released(due, &[Some(true), None]).0, 1);
        assert!(hooks.next_due(none).unwrap() >= now + RETRY, "one is rejected again");
        hooks.lock().retry_at = Some(now);
        hooks.settle_released(hooks.due(none), &[Some(false)]);
        assert!(hooks.is_empty() && hooks.next_due(none).is_none());
        let queue = hooks.lock();
        assert_eq!((queue.held_bytes, queue.held_ids.len()), (0, 0));
    }

    fn ids(due: &DueHooks) -> Vec<&str> {
        due.held.iter().chain(&due.rejected).map(|held| held.hook.webhook.id.as_str()).collect()
    }
}
