//! One channel's subscribers on one core, and the messages queued for them.
//!
//! Queued messages for the same subscribers are written together, without delaying any of them. A
//! run over thousands of subscribers is split into turns. A connection that subscribes or leaves
//! between turns neither misses a message nor receives one twice.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use weir_base::clock::Timestamp;

use crate::cores::{Audience, Broadcast, SessionKey};

/// All subscribers of one channel on one core.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    subscribers: Vec<Subscriber>,
    waiting: VecDeque<Broadcast>,
    run: Option<Run>,
    finished: Option<Timestamp>,
}

/// A subscriber, and the sequence number after which it receives messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscriber {
    pub(crate) session: SessionKey,
    /// Whether it receives batched changes of a presence channel's members instead of single
    /// events.
    pub(crate) wants_member_changes: bool,
    pub(crate) from: u64,
}

/// Messages that are being delivered together.
#[derive(Debug)]
struct Run {
    broadcasts: Vec<Broadcast>,
    joined: Bytes,
    group: DeliveryGroup,
    /// Index of the next subscriber to serve.
    next: usize,
}

/// The common audience of a run's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryGroup {
    Everyone,
    /// The session filters the messages.
    Filtered,
    /// Subscribers whose `wants_member_changes` equals `wants_changes`.
    MembersOf {
        wants_changes: bool,
    },
}

impl DeliveryGroup {
    fn of(broadcast: &Broadcast) -> Self {
        match broadcast.audience {
            Audience::Everyone => Self::Everyone,
            Audience::Except(_) => Self::Filtered,
            Audience::MemberEvents => Self::MembersOf { wants_changes: false },
            Audience::MemberChanges => Self::MembersOf { wants_changes: true },
        }
    }
}

/// The messages for one subscriber.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delivery<'a> {
    /// All of these. `joined` holds their frames in sequence.
    Joined { broadcasts: &'a [Broadcast], joined: &'a Bytes },
    /// These, filtered by the session.
    Each(&'a [Broadcast]),
}

/// A subscriber whose index changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) session: SessionKey,
    pub(crate) index: u32,
}

/// The result of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnProgress {
    /// Number of subscribers processed.
    pub(crate) subscribers: usize,
    /// Whether another turn is needed.
    pub(crate) has_more: bool,
}

impl Fanout {
    /// Returns the number of subscribers.
    pub(crate) fn len(&self) -> usize {
        self.subscribers.len()
    }

    /// Adds a subscriber. Returns its index.
    pub(crate) fn add(&mut self, subscriber: Subscriber) -> u32 {
        self.subscribers.push(subscriber);
        u32::try_from(self.subscribers.len() - 1).expect("fewer subscribers than file descriptors")
    }

    /// Removes the subscriber at `index`. Returns the subscribers whose index changed. Subscribers
    /// that have the current run stay in front of those that don't.
    pub(crate) fn remove(&mut self, index: u32) -> [Option<Moved>; 2] {
        let mut hole = index as usize;
        let mut moved = [None; 2];
        if let Some(run) = self.run.as_mut().filter(|run| hole < run.next) {
            run.next -= 1;
            let last_served = run.next;
            moved[0] = self.move_to(last_served, hole);
            hole = last_served;
        }
        moved[1] = self.move_to(self.subscribers.len() - 1, hole);
        self.subscribers.pop();
        moved
    }

    fn move_to(&mut self, from: usize, to: usize) -> Option<Moved> {
        if from == to {
            return None;
        }
        self.subscribers[to] = self.subscribers[from];
        let index = u32::try_from(to).expect("an index that was one before");
        Some(Moved { session: self.subscribers[to].session, index })
    }

    /// Queues a message.
    pub(crate) fn push(&mut self, broadcast: Broadcast) {
        self.waiting.push_back(broadcast);
    }

    /// Delivers to at most `writes_max` subscribers, in writes of at most `write_bytes_max` unless
    /// a single message is larger. Calls `deliver` with the messages for each subscriber.
    pub(crate) fn deliver_turn(
        &mut self,
        writes_max: usize,
        write_bytes_max: usize,
        mut deliver: impl FnMut(SessionKey, Delivery<'_>),
    ) -> TurnProgress {
        let mut remaining = writes_max;
        while remaining > 0 {
            let Some(run) = self.run.as_mut() else {
                self.run = Run::begin(&mut self.waiting, write_bytes_max);
                if self.run.is_none() {
                    break;
                }
                continue;
            };
            let end = self.subscribers.len().min(run.next + remaining);
            for subscriber in &self.subscribers[run.next..end] {
                run.deliver(*subscriber, &mut deliver);
            }
            remaining -= end - run.next;
            run.next = end;
            if end == self.subscribers.len() {
                self.finished = Some(run.broadcasts[0].published_at);
                self.run = None;
            }
        }
        TurnProgress { subscribers: writes_max - remaining, has_more: !self.is_idle() }
    }

    /// Returns whether all messages are delivered.
    pub(crate) fn is_idle(&self) -> bool {
        self.run.is_none() && self.waiting.is_empty()
    }

    /// Returns when the oldest message of the last run was published, if a run ended since the last
    /// call.
    pub(crate) fn take_finished(&mut self) -> Option<Timestamp> {
        self.finished.take()
    }
}

impl Run {
    /// Takes as many queued messages as fit into one write, but at least one. Returns None if the
    /// queue is empty.
    fn begin(waiting: &mut VecDeque<Broadcast>, write_bytes_max: usize) -> Option<Self> {
        let group = DeliveryGroup::of(waiting.front()?);
        let mut bytes = 0;
        let fitting = waiting.iter().take_while(|broadcast| {
            bytes += broadcast.frame.wire().len();
            bytes <= write_bytes_max && DeliveryGroup::of(broadcast) == group
        });
        let count = fitting.count().max(1).min(waiting.len());
        let broadcasts: Vec<Broadcast> = waiting.drain(..count).collect();
        let joined = join(&broadcasts)?;
        Some(Self { broadcasts, joined, group, next: 0 })
    }

    #[inline]
    fn deliver(&self, subscriber: Subscriber, deliver: &mut impl FnMut(SessionKey, Delivery<'_>)) {
        let Subscriber { session, wants_member_changes, from } = subscriber;
        let broadcasts = &self.broadcasts[..];
        if matches!(self.group, DeliveryGroup::MembersOf { wants_changes } if wants_changes != wants_member_changes)
        {
            return;
        }
        if self.group != DeliveryGroup::Filtered && from < broadcasts[0].sequence {
            return deliver(session, Delivery::Joined { broadcasts, joined: &self.joined });
        }
        let start = broadcasts.partition_point(|broadcast| broadcast.sequence <= from);
        if start < broadcasts.len() {
            deliver(session, Delivery::Each(&broadcasts[start..]));
        }
    }
}

/// Returns all frames in sequence, or None if there are none.
fn join(broadcasts: &[Broadcast]) -> Option<Bytes> {
    match broadcasts {
        [] => None,
        [only] => Some(only.frame.wire().clone()),
        several => {
            let bytes = several.iter().map(|broadcast| broadcast.frame.wire().len()).sum();
            let mut joined = BytesMut::with_capacity(bytes);
            for broadcast in several {
                joined.extend_from_slice(broadcast.frame.wire());
            }
            Some(joined.freeze())
        }
    }
}

#[cfg(test)]
mod tests;
