//! The requests of an app that wait for a slot.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::RequestClass;
use super::delay::Delay;
use super::priority_queue::PriorityQueue;

/// The priority of a request; a higher one is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Priority {
    High,
    Normal,
    Low,
}

impl Priority {
    const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];
}

/// Identifies a waiting request, see [`RequestQueue::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

#[derive(Debug)]
struct QueuedRequest<T> {
    class: RequestClass,
    since: Timestamp,
    waiter: T,
}

/// The waiting requests of an app.
#[derive(Debug)]
pub(super) struct RequestQueue<T> {
    /// By number, and thereby in the order of their arrival.
    entries: BTreeMap<u64, QueuedRequest<T>>,
    by_priority: [PriorityQueue; 3],
    pushed: u64,
    delay: Delay,
}

impl<T> Default for RequestQueue<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            by_priority: Priority::ALL.map(|_| PriorityQueue::default()),
            pushed: 0,
            delay: Delay::default(),
        }
    }
}

impl<T> RequestQueue<T> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns since when the queue has been too long to be served within `delay_max`.
    pub(super) fn overlong_since(&self, delay_max: Duration, now: Timestamp) -> Option<Timestamp> {
        self.delay.overlong_since(self.len(), delay_max, now).filter(|_| !self.is_empty())
    }

    /// Restarts the measurement of the delay at `now`.
    pub(super) fn restart_waiting(&mut self, now: Timestamp) {
        self.delay.restart(now);
    }

    /// Adds a request. A queue that takes longer than `delay_max` to serve is too long.
    pub(super) fn push(
        &mut self,
        class: RequestClass,
        waiter: T,
        delay_max: Duration,
        now: Timestamp,
    ) -> Ticket {
        if self.is_empty() {
            self.delay.restart(now);
        }
        self.pushed += 1;
        let number = self.pushed;
        self.by_priority[class.priority as usize].push(class.client, number);
        self.entries.insert(number, QueuedRequest { class, since: now, waiter });
        self.delay.update(self.len(), delay_max, now);
        Ticket(number)
    }

    /// Removes and returns the request that gets the next slot.
    pub(super) fn pop(
        &mut self,
        newest_first: bool,
        delay_max: Duration,
        now: Timestamp,
    ) -> Option<T> {
        let len = self.len();
        let queue_of = self.by_priority.iter_mut().find(|queue_of| !queue_of.is_empty())?;
        let (_, number) = queue_of.pop(newest_first)?;
        let entry = self.entries.remove(&number)?;
        self.delay.record_departure(len, delay_max, now);
        Some(entry.waiter)
    }

    /// Removes a request whose client gave up.
    pub(super) fn cancel(&mut self, ticket: Ticket, now: Timestamp) -> Option<T> {
        let since = self.entries.get(&ticket.0)?.since;
        self.delay.record_give_up(now.since(since));
        self.remove(ticket.0)
    }

    /// Returns when the oldest request began to wait.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.entries.first_key_value().map(|(_, entry)| entry.since)
    }

    pub(super) fn pop_oldest(&mut self) -> Option<T> {
        let number = *self.entries.first_key_value()?.0;
        self.remove(number)
    }

    /// Removes a request to make room for `class`: the oldest of the client with the most requests,
    /// if its priority is lower or its client has more requests than the one of `class`; otherwise,
    /// with `newest_first`, the oldest of the same priority. Returns None if there is no such one.
    pub(super) fn displace(&mut self, class: RequestClass, newest_first: bool) -> Option<T> {
        let lowest = *Priority::ALL.iter().rev().find(|&&one| !self.queue_of(one).is_empty())?;
        let queue_of = self.queue_of(lowest);
        let (oldest_of_largest, largest) = queue_of.largest()?;
        let is_larger = largest > queue_of.len_of(class.client) + 1;
        let number = if lowest > class.priority || lowest == class.priority && is_larger {
            oldest_of_largest
        } else if lowest == class.priority && newest_first {
            self.oldest_of(lowest)?
        } else {
            return None;
        };
        self.remove(number)
    }

    fn oldest_of(&self, priority: Priority) -> Option<u64> {
        let mut entries = self.entries.iter();
        entries.find(|(_, entry)| entry.class.priority == priority).map(|(number, _)| *number)
    }

    fn queue_of(&self, priority: Priority) -> &PriorityQueue {
        &self.by_priority[priority as usize]
    }

    fn remove(&mut self, number: u64) -> Option<T> {
        let entry = self.entries.remove(&number)?;
        self.by_priority[entry.class.priority as usize].remove(entry.class.client, number);
        Some(entry.waiter)
    }
}
