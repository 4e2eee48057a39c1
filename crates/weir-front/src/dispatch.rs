//! Decides which worker serves which request, and when. Free of I/O; callers pass the time in.
//!
//! **Join-idle.** A request goes to a worker with a free slot: the least loaded one and, among
//! equals, the one that was given a request longest ago, so counts stay even. All workers share one
//! queue, so no request waits for a busy worker while another has a free slot.
//!
//! **The queue** is bounded and ordered by priority; within one priority, clients share it fairly
//! ([`priority_queue`]). Requests wait for `queue_timeout` at most.
//!
//! **Overload** begins when, for `overload_after`, the queue has been longer than what the workers
//! serve within `overload_delay`, or within half the time after which clients give up ([`delay`]).
//! Until then, requests are served in the order of their arrival. During an overload the newest
//! request of a client is served first and none waits longer than `overload_wait`, so that served
//! requests are recent ones. (Adaptive LIFO and controlled delay, after B. Maurer, "Fail at Scale",
//! ACM Queue 13(8), 2015. There, any standing queue counts as an overload. Here it does not:
//! clients that wait for a response before they send the next request keep the queue at a constant
//! length, and all of them can be served.)
//!
//! **Streams** (WebSockets, server-sent events) would hold a request's slot for hours, so they have
//! slots of their own. Only the worker's response shows whether a request is a stream: until then
//! it counts as a request. If the worker has no room for another stream, the stream is rejected
//! and its slot is released. If workers have no slots for streams at all, a stream keeps the slot
//! of its request, and one slot of the app is reserved for requests.
//!
//! **What a worker owes** is tracked apart from the slots in use: a stream, or a request with a
//! slow client, may run for long without the worker being stuck.
//! stream, may be there for long without the worker being stuck.

mod delay;
mod peak;
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

use self::peak::BusyPeak;
use self::priority_queue::FlowKey;
use self::queue::RequestQueue;
pub(crate) use self::queue::{Priority, Ticket};
pub use self::workers::ExternalLoad;
use self::workers::WorkerTable;
pub(crate) use self::workers::{Load, Slots, StreamSlot, WorkerKey};

/// The limits of an app's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    /// How many requests may wait at once.
    pub(crate) queue_max: usize,
    /// How long a request may wait.
    pub(crate) queue_timeout: Duration,
    /// A queue that the workers need longer than this to serve is too long.
    pub(crate) overload_delay: Duration,
    /// An overload begins once the queue has been too long for this long.
    pub(crate) overload_after: Duration,
    /// How long a request may wait during an overload.
    pub(crate) overload_wait: Duration,
}

/// The priority and the client of a request, which determine its position in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestClass {
    pub(crate) priority: Priority,
    pub(crate) client: FlowKey,
}

/// A slot of a worker. Pass it to [`Dispatcher::end`] exactly once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    running: usize,
    pub(crate) worker: WorkerKey,
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum QueueError {
    /// `queue_max` requests are waiting.
    QueueFull,
    /// The request waited for `queue_timeout`.
    QueueTimeout,
    /// During an overload, it waited for `overload_wait` or was displaced by a newer request.
    Overload,
    /// The worker made a stream of it but has as many streams as it may have.
    Streams,
    /// The worker made a stream of it, but its client has as many streams as it may have.
    ClientStreams,
}

/// The outcome of [`Dispatcher::wait`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EnqueueOutcome<T> {
    /// The request waits. `displaced` is a request that was removed to make room for it.
    Queued {
        ticket: Ticket,
        displaced: Option<(T, QueueError)>,
    },
    Rejected(T, QueueError),
}

/// A request or stream that holds a slot.
#[derive(Clone, Copy, Debug)]
struct HeldSlot {
    worker: WorkerKey,
    /// None: a request, not a stream.
    stream: Option<StreamSlot>,
    /// Since when the worker owes a response or a read. None: it waits for the client, or is a
    /// stream.
    due_since: Option<Timestamp>,
}

/// A worker that has owed a response for longer than a given age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub(crate) worker: WorkerKey,
    /// When the oldest of these requests became due.
    pub(crate) oldest: Timestamp,
    /// How many requests are older than the age.
    pub(crate) requests: u32,
}

/// The slots of an app's workers and the requests that wait for one. `T` identifies a request.
#[derive(Debug)]
pub(crate) struct Dispatcher<T> {
    limits: QueueLimits,
    workers: WorkerTable,
    queue: RequestQueue<T>,
    running: Slab<HeldSlot>,
    is_paused: bool,
    peak: BusyPeak,
}

impl<T> Dispatcher<T> {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            workers: WorkerTable::default(),
            queue: RequestQueue::default(),
            running: Slab::new(),
            is_paused: false,
            peak: BusyPeak::default(),
        }
    }

    /// Takes a slot if one is free. This overtakes no request: none waits while a slot is free.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<Permit> {
        if self.is_paused {
            return None;
        }
        self.workers.take().map(|worker| self.assign(worker, now))
    }

    /// Takes a slot for a probable stream, preferably of a worker with room for one.
    pub(crate) fn take_for_stream(&mut self, now: Timestamp) -> Option<Permit> {
        if self.is_paused {
            return None;
        }
        let worker = self.workers.take_for_stream().or_else(|| self.workers.take());
        worker.map(|worker| self.assign(worker, now))
    }

    fn assign(&mut self, worker: WorkerKey, now: Timestamp) -> Permit {
        self.peak.note(now, self.workers.requests_in_progress());
        let running = HeldSlot { worker, stream: None, due_since: Some(now) };
        Permit { running: self.running.insert(running), worker }
    }

    /// Notes that the worker owes a response from `now` on.
    pub(crate) fn start_response_timer(&mut self, permit: &Permit, now: Timestamp) {
        self.running[permit.running].due_since = Some(now);
    }

    /// Notes that the client has gone: what the worker owes remains due. If it waited for the
    /// client, it owes a response from `now` on.
    pub(crate) fn ensure_response_timer(&mut self, permit: &Permit, now: Timestamp) {
        self.running[permit.running].due_since.get_or_insert(now);
    }

    /// Notes that the worker waits for the client.
    pub(crate) fn stop_response_timer(&mut self, permit: &Permit) {
        self.running[permit.running].due_since = None;
    }

    /// Marks a request as a stream, for which the worker owes nothing. Returns None if there is no
    /// room for it. If the stream gets a slot of its own, the request's slot becomes free: call
    /// [`Dispatcher::next`].
    pub(crate) fn make_stream(&mut self, permit: &Permit) -> Option<StreamSlot> {
        let running = &mut self.running[permit.running];
        running.due_since = None;
        if running.stream.is_none() {
            running.stream = self.workers.make_stream(running.worker);
        }
        running.stream
    }

    /// Queues a request after [`Dispatcher::take`] has returned None.
    pub(crate) fn wait(
        &mut self,
        class: RequestClass,
        waiter: T,
        now: Timestamp,
    ) -> EnqueueOutcome<T> {
        let is_overloaded = self.is_overloaded(now);
        let QueueLimits { queue_max, overload_delay, .. } = self.limits;
        let queue = &mut self.queue;
        if queue.len() < queue_max {
            let ticket = queue.push(class, waiter, overload_delay, now);
            return EnqueueOutcome::Queued { ticket, displaced: None };
        }
        let error = if is_overloaded { QueueError::Overload } else { QueueError::QueueFull };
        match queue.displace(class, is_overloaded) {
            Some(displaced) => {
                let ticket = queue.push(class, waiter, overload_delay, now);
                EnqueueOutcome::Queued { ticket, displaced: Some((displaced, error)) }
            }
            None => EnqueueOutcome::Rejected(waiter, error),
        }
    }

    /// Removes a request whose client gave up. Returns None if it is no longer queued.
    pub(crate) fn cancel(&mut self, ticket: Ticket, now: Timestamp) -> Option<T> {
        self.queue.cancel(ticket, now)
    }

    /// Releases a slot; call [`Dispatcher::next`] afterwards.
    pub(crate) fn end(&mut self, permit: Permit) {
        let HeldSlot { worker, stream, .. } = self.running.remove(permit.running);
        self.workers.end(worker, stream);
    }

    /// Returns the next waiting request with its slot, if there are both. Call it once after a slot
    /// was released, and until it returns None after slots were added. The caller owns the permit
    /// and, if the request does not take it, returns it through [`Dispatcher::end`].
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

    /// Removes and returns the requests that have waited too long.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Vec<(T, QueueError)> {
        let mut expired = Vec::new();
        let (wait_limit, error) = self.wait_limit(now);
        while self.queue.oldest().is_some_and(|since| now.since(since) >= wait_limit) {
            expired.extend(self.queue.pop_oldest().map(|waiter| (waiter, error)));
        }
        expired
    }

    /// Returns how long a request may wait at present, and its error after that.
    fn wait_limit(&self, now: Timestamp) -> (Duration, QueueError) {
        let QueueLimits { queue_timeout, overload_wait, .. } = self.limits;
        if self.is_overloaded(now) && overload_wait < queue_timeout {
            (overload_wait, QueueError::Overload)
        } else {
            (queue_timeout, QueueError::QueueTimeout)
        }
    }

    /// Returns whether there is an overload. Waits during a pause or while no worker serves do not
    /// count as one.
    pub(crate) fn is_overloaded(&self, now: Timestamp) -> bool {
        let is_serving = !self.is_paused && self.workers.any_serves();
        let QueueLimits { overload_delay, overload_after, .. } = self.limits;
        let since = self.queue.overlong_since(overload_delay, now);
        is_serving && since.is_some_and(|since| now.since(since) > overload_after)
    }

    /// Returns the most requests that were in progress at once in this minute and the one before.
    pub(crate) fn busy_peak(&self, now: Timestamp) -> u32 {
        self.peak.of_last_minutes(now, self.workers.requests_in_progress())
    }

    /// Returns how many requests the workers that serve can have in progress at once.
    pub(crate) fn request_slots(&self) -> u32 {
        self.workers.request_slots()
    }

    /// Returns how many requests wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Stops giving slots; waiting requests keep waiting.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Gives slots again; call [`Dispatcher::next`] afterwards.
    pub(crate) fn resume(&mut self, now: Timestamp) {
        self.is_paused = false;
        self.restart_waiting(now);
    }

    /// Restarts the measurement of the queue, so that waits during a pause cause no overload.
    fn restart_waiting(&mut self, now: Timestamp) {
        self.queue.restart_waiting(now);
    }

    /// Adds a worker with `slots`; call [`Dispatcher::next`] afterwards.
    pub(crate) fn add_worker(&mut self, slots: Slots, now: Timestamp) -> WorkerKey {
        if !self.workers.any_serves() {
            self.restart_waiting(now);
        }
        self.workers.add(slots)
    }

    /// Gives the worker no new requests, and removes it once its last slot is released.
    pub(crate) fn drain_worker(&mut self, worker: WorkerKey) {
        self.workers.drain(worker);
    }

    /// Stops or resumes giving new requests to the worker. After a resume, call
    /// [`Dispatcher::next`].
    pub(crate) fn hold_back_worker(&mut self, worker: WorkerKey, is_held: bool, now: Timestamp) {
        let did_any_serve = self.workers.any_serves();
        self.workers.hold_back(worker, is_held);
        if !did_any_serve && self.workers.any_serves() {
            self.restart_waiting(now);
        }
    }

    /// Sets how many slots of the worker other service processes use; call [`Dispatcher::next`]
    /// afterwards.
    pub(crate) fn set_external_load(&mut self, worker: WorkerKey, external: ExternalLoad) {
        self.workers.set_external_load(worker, external);
    }

    /// Gives a worker that could not be reached no new requests before `until`.
    pub(crate) fn suspend_worker(&mut self, worker: WorkerKey, until: Timestamp) {
        self.workers.suspend(worker, until);
    }

    /// Ends the suspensions that have expired; call [`Dispatcher::next`] afterwards.
    pub(crate) fn end_suspensions(&mut self, now: Timestamp) {
        let did_any_serve = self.workers.any_serves();
        if self.workers.end_suspensions(now) && !did_any_serve {
            self.restart_waiting(now);
        }
    }

    /// Returns the load of each worker, in the order in which they were added.
    pub(crate) fn loads(&self) -> Vec<(WorkerKey, Load)> {
        self.workers.loads()
    }

    /// Returns whether the worker exists, draining ones included.
    pub(crate) fn contains(&self, worker: WorkerKey) -> bool {
        self.workers.contains(worker)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Returns the workers that have owed a response for `age` or longer.
    pub(crate) fn overdue(&self, age: Duration, now: Timestamp) -> Vec<Overdue> {
        let mut overdue: Vec<Overdue> = Vec::new();
        let due = self.running.iter().filter_map(|(_, slot)| Some((slot.worker, slot.due_since?)));
        for (worker, since) in due.filter(|(_, since)| now.since(*since) >= age) {
            match overdue.iter_mut().find(|entry| entry.worker == worker) {
                Some(entry) => {
                    entry.oldest = since.min(entry.oldest);
                    entry.requests += 1;
                }
                None => overdue.push(Overdue { worker, oldest: since, requests: 1 }),
            }
        }
        overdue
    }
}
