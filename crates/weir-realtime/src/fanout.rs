//! One channel's subscribers on one core, and the messages on their way to them.
//!
//! Messages that wait for the same subscribers go together: one write carries them all, without
//! anybody having waited for that. A run over thousands of subscribers is cut into turns; who
//! subscribes or leaves in between neither misses a message nor gets one twice.

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

/// A subscriber, and the place after which messages are for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscriber {
    pub(crate) session: SessionKey,
    /// How it learns of the members of a presence channel.
    pub(crate) wants_member_changes: bool,
    pub(crate) from: u64,
}

/// Messages that are being delivered together.
#[derive(Debug)]
struct Run {
    broadcasts: Vec<Broadcast>,
    joined: Bytes,
    for_whom: ForWhom,
    /// Subscribers before this one have it.
    next: usize,
}

/// For whom the messages of a run are: the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForWhom {
    Everyone,
    /// The session knows.
    NotEveryone,
    /// Subscribers with this answer to `wants_member_changes`.
    MembersOf {
        wants_changes: bool,
    },
}

impl ForWhom {
    fn of(broadcast: &Broadcast) -> Self {
        match broadcast.audience {
            Audience::Everyone => Self::Everyone,
            Audience::Except(_) => Self::NotEveryone,
            Audience::MemberEvents => Self::MembersOf { wants_changes: false },
            Audience::MemberChanges => Self::MembersOf { wants_changes: true },
        }
    }
}

/// What one subscriber is to get.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Delivery<'a> {
    /// All of these, whose frames are in `joined`, one behind the other.
    Joined { broadcasts: &'a [Broadcast], joined: &'a Bytes },
    /// Those of these that are for it.
    Each(&'a [Broadcast]),
}

/// Somebody's place among the subscribers is another one now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) session: SessionKey,
    pub(crate) index: u32,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnProgress {
    /// Subscribers that were looked at.
    pub(crate) subscribers: usize,
    /// Another turn is needed.
    pub(crate) has_more: bool,
}

impl Fanout {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.subscribers.len()
    }

    /// Adds a subscriber; answers where it is.
    pub(crate) fn add(&mut self, subscriber: Subscriber) -> u32 {
        self.subscribers.push(subscriber);
        u32::try_from(self.subscribers.len() - 1).expect("fewer subscribers than file descriptors")
    }

    /// Takes away the subscriber at `index`; answers who moved. Those who have the current run stay
    /// in front of those who don't.
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

    /// Adds a message.
    pub(crate) fn push(&mut self, broadcast: Broadcast) {
        self.waiting.push_back(broadcast);
    }

    /// Delivers to at most `writes_max` subscribers; `deliver` gets each with what it is to get.
    pub(crate) fn turn(
        &mut self,
        writes_max: usize,
        write_bytes_max: usize,
        mut deliver: impl FnMut(SessionKey, Delivery<'_>),
    ) -> TurnProgress {
        let mut left = writes_max;
        while left > 0 {
            let Some(run) = self.run.as_mut() else {
                self.run = Run::begin(&mut self.waiting, write_bytes_max);
                if self.run.is_none() {
                    break;
                }
                continue;
            };
            let end = self.subscribers.len().min(run.next + left);
            for subscriber in &self.subscribers[run.next..end] {
                run.deliver(*subscriber, &mut deliver);
            }
            left -= end - run.next;
            run.next = end;
            if end == self.subscribers.len() {
                self.finished = Some(run.broadcasts[0].published_at);
                self.run = None;
            }
        }
        TurnProgress { subscribers: writes_max - left, has_more: !self.is_idle() }
    }

    /// Whether nothing is left to deliver.
    pub(crate) fn is_idle(&self) -> bool {
        self.run.is_none() && self.waiting.is_empty()
    }

    /// When the oldest message of the last run was published, if one ended since the last call.
    pub(crate) fn take_finished(&mut self) -> Option<Timestamp> {
        self.finished.take()
    }
}

impl Run {
    /// As many waiting messages as go into one write; always at least one.
    fn begin(waiting: &mut VecDeque<Broadcast>, write_bytes_max: usize) -> Option<Self> {
        let for_whom = ForWhom::of(waiting.front()?);
        let mut bytes = 0;
        let fitting = waiting.iter().take_while(|broadcast| {
            bytes += broadcast.frame.wire().len();
            bytes <= write_bytes_max && ForWhom::of(broadcast) == for_whom
        });
        let count = fitting.count().max(1).min(waiting.len());
        let broadcasts: Vec<Broadcast> = waiting.drain(..count).collect();
        let joined = join(&broadcasts)?;
        Some(Self { broadcasts, joined, for_whom, next: 0 })
    }

    #[inline]
    fn deliver(&self, subscriber: Subscriber, deliver: &mut impl FnMut(SessionKey, Delivery<'_>)) {
        let Subscriber { session, wants_member_changes, from } = subscriber;
        let broadcasts = &self.broadcasts[..];
        if matches!(self.for_whom, ForWhom::MembersOf { wants_changes } if wants_changes != wants_member_changes)
        {
            return;
        }
        if self.for_whom != ForWhom::NotEveryone && from < broadcasts[0].sequence {
            return deliver(session, Delivery::Joined { broadcasts, joined: &self.joined });
        }
        let start = broadcasts.partition_point(|broadcast| broadcast.sequence <= from);
        if start < broadcasts.len() {
            deliver(session, Delivery::Each(&broadcasts[start..]));
        }
    }
}

/// All frames, one behind the other; none of nothing.
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
