//! Which worker serves which request, and when: pure rules, with the time passed in.
//!
//! **Join-idle.** A request goes to a worker that has room, the one that has least to do and, among
//! those, the one that was given something longest ago: counts stay even without being a goal.
//! No request waits for a busy worker while another has room: there is one queue for all.
//!
//! **The queue** is bounded, ordered by priority and, within one, shared fairly among clients
//! ([`priority_queue`]). It may hold requests for `queue_timeout`.
//!
//! **Overload** is a queue that, for `overload_after`, was longer than what the workers serve within
//! `overload_delay`, or within half the time after which clients give up ([`delay`]): while requests can
//! be served in time, they are served in the order of their arrival. In an overload the newest request of
//! a client goes first and none waits longer than `overload_wait`: what is served is fresh. (Adaptive
//! LIFO and controlled delay, after B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015. There a queue
//! that is not empty counts; but clients that wait for a response before their next request keep a
//! queue of a constant length, and none of them needs to be refused.)
//!
//! **Streams** (WebSockets, server-sent events) would hold a request's slot for hours, so they have
//! slots of their own. What is one says the worker's response, not the client: until then it is a
//! request like any other. If a worker has no room for one more, the stream is refused and the
//! slot is free. Of workers that have no slots for streams at all each stream keeps the slot of its request,
//! and one slot of the app is left for requests.
//!
//! **What a worker owes** is told apart from what it has: a request whose client is slow, and a
//! stream, may be there for long without the worker being stuck.

mod delay;
mod priority_queue;
mod queue;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod workers;

use std::time::Duration;

use slab::Slab;
use weir_base::clock::Timestamp;

use self::priority_queue::FlowKey;
use self::queue::RequestQueue;
pub(crate) use self::queue::{Priority, Ticket};
pub use self::workers::Elsewhere;
use self::workers::WorkerTable;
pub(crate) use self::workers::{Load, Slots, StreamSlot, WorkerKey};

/// The limits of an app's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    /// Requests that wait at once.
    pub(crate) queue_max: usize,
    /// How long one may wait.
    pub(crate) queue_timeout: Duration,
    /// A queue that takes longer than this to serve is too long ..
    pub(crate) overload_delay: Duration,
    /// .. and an overload once it has been so for this long.
    pub(crate) overload_after: Duration,
    /// How long one may wait during an overload.
    pub(crate) overload_wait: Duration,
}

/// A request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestClass {
    pub(crate) priority: Priority,
    pub(crate) client: FlowKey,
}

/// A slot of a worker. Each must come back through [`Dispatcher::end`], once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    running: usize,
    pub(crate) worker: WorkerKey,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QueueError {
    /// `queue_max` others wait.
    QueueFull,
    /// It waited for `queue_timeout`.
    QueueTimeout,
    /// It waited for `overload_wait`, or made room for a newer one, during an overload.
    Overload,
    /// The worker has made a stream of it, and has as many as it may.
    Streams,
    /// The same, and its client has as many as one may.
    ClientStreams,
}

/// The outcome of a request to wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EnqueueOutcome<T> {
    /// It waits; `displaced` does so no more.
    Queued {
        ticket: Ticket,
        displaced: Option<(T, QueueError)>,
    },
    Refused(T, QueueError),
}

/// What holds a slot.
#[derive(Clone, Copy, Debug)]
struct HeldSlot {
    worker: WorkerKey,
    /// None: it is no stream, or not yet.
    stream: Option<StreamSlot>,
    /// Since when the worker is to say or to take something. None: it waits for the client, or has
    /// nothing to say before it likes.
    owes_since: Option<Timestamp>,
}

/// A worker that has owed something for longer than an age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub(crate) worker: WorkerKey,
    /// Since when, the longest.
    pub(crate) oldest: Timestamp,
    /// How many requests are over the age.
    pub(crate) requests: u32,
}

/// The slots of an app's workers and the requests that wait for one; `T` stands for a request.
#[derive(Debug)]
pub(crate) struct Dispatcher<T> {
    limits: QueueLimits,
    workers: WorkerTable,
    queue: RequestQueue<T>,
    running: Slab<HeldSlot>,
    is_paused: bool,
}

impl<T> Dispatcher<T> {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            workers: WorkerTable::default(),
            queue: RequestQueue::default(),
            running: Slab::new(),
            is_paused: false,
        }
    }

    /// A slot, if one is free. That overtakes no request: while one is free, none waits.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<Permit> {
        if self.is_paused {
            return None;
        }
        self.workers.take().map(|worker| self.begin(worker, now))
    }

    /// The same for what will probably be a stream: rather of a worker that has room for one.
    pub(crate) fn take_for_stream(&mut self, now: Timestamp) -> Option<Permit> {
        if self.is_paused {
            return None;
        }
        let worker = self.workers.take_for_stream().or_else(|| self.workers.take());
        worker.map(|worker| self.begin(worker, now))
    }

    fn begin(&mut self, worker: WorkerKey, now: Timestamp) -> Permit {
        let running = HeldSlot { worker, stream: None, owes_since: Some(now) };
        Permit { running: self.running.insert(running), worker }
    }

    /// The age of the worker's oldest work is reset.
    pub(crate) fn owes(&mut self, permit: &Permit, now: Timestamp) {
        self.running[permit.running].owes_since = Some(now);
    }

    /// What it owes does not end with the client; if it was the client's turn, it is the worker's now.
    pub(crate) fn owes_still(&mut self, permit: &Permit, now: Timestamp) {
        self.running[permit.running].owes_since.get_or_insert(now);
    }

    /// It is the client's turn.
    pub(crate) fn owes_nothing(&mut self, permit: &Permit) {
        self.running[permit.running].owes_since = None;
    }

    /// The worker has made a stream of it, and owes nothing. None: there is no room for it. If it has a
    /// slot of its own, that of its request is free: see [`Dispatcher::next`].
    pub(crate) fn make_stream(&mut self, permit: &Permit) -> Option<StreamSlot> {
        let running = &mut self.running[permit.running];
        running.owes_since = None;
        if running.stream.is_none() {
            running.stream = self.workers.make_stream(running.worker);
        }
        running.stream
    }

    /// Waits for a slot, after [`Dispatcher::take`] had none.
    pub(crate) fn wait(
        &mut self,
        wish: RequestClass,
        waiter: T,
        now: Timestamp,
    ) -> EnqueueOutcome<T> {
        let is_overloaded = self.is_overloaded(now);
        let QueueLimits { queue_max, overload_delay, .. } = self.limits;
        let queue = &mut self.queue;
        if queue.len() < queue_max {
            let ticket = queue.push(wish, waiter, overload_delay, now);
            return EnqueueOutcome::Queued { ticket, displaced: None };
        }
        let refusal = if is_overloaded { QueueError::Overload } else { QueueError::QueueFull };
        match queue.make_room(wish, is_overloaded) {
            Some(displaced) => {
                let ticket = queue.push(wish, waiter, overload_delay, now);
                EnqueueOutcome::Queued { ticket, displaced: Some((displaced, refusal)) }
            }
            None => EnqueueOutcome::Refused(waiter, refusal),
        }
    }

    /// Its client gave up; None: it does not wait.
    pub(crate) fn leave(&mut self, ticket: Ticket, now: Timestamp) -> Option<T> {
        self.queue.leave(ticket, now)
    }

    /// Gives a slot back: see [`Dispatcher::next`].
    pub(crate) fn end(&mut self, permit: Permit) {
        let HeldSlot { worker, stream, .. } = self.running.remove(permit.running);
        self.workers.end(worker, stream);
    }

    /// The next request that gets a slot, if there are both. To be called after a slot was returned, and until it
    /// returns None after anything that adds slots. The permit belongs to its receiver: if
    /// it is not taken, it returns through [`Dispatcher::end`].
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<(T, Permit)> {
        if self.queue.is_empty() {
            return None;
        }
        let permit = self.take(now)?;
        let is_overloaded = self.is_overloaded(now);
        match self.queue.pop(is_overloaded, self.limits.overload_delay, now) {
            Some(waiter) => Some((waiter, permit)),
            None => unreachable!("a queue that is not empty has a next"),
        }
    }

    /// Requests that have waited too long.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Vec<(T, QueueError)> {
        let mut expired = Vec::new();
        let (patience, refusal) = self.patience(now);
        while self.queue.oldest().is_some_and(|since| now.since(since) >= patience) {
            expired.extend(self.queue.pop_oldest().map(|waiter| (waiter, refusal)));
        }
        expired
    }

    /// How long a request may wait at present, and its error after that.
    fn patience(&self, now: Timestamp) -> (Duration, QueueError) {
        let QueueLimits { queue_timeout, overload_wait, .. } = self.limits;
        if self.is_overloaded(now) && overload_wait < queue_timeout {
            (overload_wait, QueueError::Overload)
        } else {
            (queue_timeout, QueueError::QueueTimeout)
        }
    }

    /// A pause and a start of all workers are waits by intention, no overloads.
    pub(crate) fn is_overloaded(&self, now: Timestamp) -> bool {
        let is_serving = !self.is_paused && self.workers.any_serves();
        let QueueLimits { overload_delay, overload_after, .. } = self.limits;
        let since = self.queue.long_since(overload_delay, now);
        is_serving && since.is_some_and(|since| now.since(since) > overload_after)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// No slot is given from now on; waiting requests keep waiting.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Slots are given again: see [`Dispatcher::next`].
    pub(crate) fn resume(&mut self, now: Timestamp) {
        self.is_paused = false;
        self.restart_waiting(now);
    }

    /// Requests that waited during a pause are no sign of an overload.
    fn restart_waiting(&mut self, now: Timestamp) {
        self.queue.restart_waiting(now);
    }

    /// A worker with slots: see [`Dispatcher::next`].
    pub(crate) fn add_worker(&mut self, slots: Slots, now: Timestamp) -> WorkerKey {
        if !self.workers.any_serves() {
            self.restart_waiting(now);
        }
        self.workers.add(slots)
    }

    /// The worker gets nothing new; it is forgotten once its last slot has come back.
    pub(crate) fn drain_worker(&mut self, worker: WorkerKey) {
        self.workers.drain(worker);
    }

    /// The worker gets nothing new until this is called with false: see [`Dispatcher::next`] then.
    pub(crate) fn hold_back_worker(&mut self, worker: WorkerKey, is_held: bool, now: Timestamp) {
        let did_any_serve = self.workers.any_serves();
        self.workers.hold_back(worker, is_held);
        if !did_any_serve && self.workers.any_serves() {
            self.restart_waiting(now);
        }
    }

    /// How much of the worker other service processes use: see [`Dispatcher::next`].
    pub(crate) fn set_elsewhere(&mut self, worker: WorkerKey, elsewhere: Elsewhere) {
        self.workers.set_elsewhere(worker, elsewhere);
    }

    /// The worker gets nothing new until `until`: it could not be reached.
    pub(crate) fn suspend_worker(&mut self, worker: WorkerKey, until: Timestamp) {
        self.workers.suspend(worker, until);
    }

    /// Ends the suspensions whose time is over: see [`Dispatcher::next`].
    pub(crate) fn end_suspensions(&mut self, now: Timestamp) {
        let did_any_serve = self.workers.any_serves();
        if self.workers.end_suspensions(now) && !did_any_serve {
            self.restart_waiting(now);
        }
    }

    /// What each worker has to do, in the order in which they were added.
    pub(crate) fn loads(&self) -> Vec<(WorkerKey, Load)> {
        self.workers.loads()
    }

    /// Whether the worker is one that may still have something to do.
    pub(crate) fn knows(&self, worker: WorkerKey) -> bool {
        self.workers.knows(worker)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Workers that have owed something for `age` or longer.
    pub(crate) fn overdue(&self, age: Duration, now: Timestamp) -> Vec<Overdue> {
        let mut overdue: Vec<Overdue> = Vec::new();
        let owed = self.running.iter().filter_map(|(_, it)| Some((it.worker, it.owes_since?)));
        for (worker, since) in owed.filter(|(_, since)| now.since(*since) >= age) {
            match overdue.iter_mut().find(|known| known.worker == worker) {
                Some(known) => {
                    known.oldest = since.min(known.oldest);
                    known.requests += 1;
                }
                None => overdue.push(Overdue { worker, oldest: since, requests: 1 }),
            }
        }
        overdue
    }
}
