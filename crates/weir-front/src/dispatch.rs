//! Which worker serves which request, and when: pure rules, with the time passed in.
//!
//! **Join-idle.** A request goes to a worker that has room, the one that has least to do and, among
//! those, the one that was given something longest ago: counts stay even without being a goal.
//! Nobody is ever queued behind a busy worker while another has room: there is one queue for all.
//!
//! **The queue** is bounded, ordered by priority and, within one, shared fairly among clients
//! ([`lane`]). It may hold requests for `queue_timeout`.
//!
//! **Overload** is a queue that, for `overload_after`, was longer than what the workers serve within
//! `overload_delay` ([`delay`]). Then the newest request of a client goes first and none waits longer
//! than `overload_wait`: what is served is fresh, and who can't be served is told at once. (Adaptive
//! LIFO and controlled delay, after B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015. There a queue
//! that is not empty counts; but as many clients as there are, each waiting for its answer before it
//! asks again, keep a short queue for good, and nobody in it needs to be refused.)
//!
//! Requests and streams (WebSockets, server-sent events) have slots and a queue each: a stream
//! would hold a slot for hours.

mod delay;
mod lane;
mod queue;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod workers;

use std::time::Duration;

use slab::Slab;
use weir_base::clock::Timestamp;

pub(crate) use self::lane::Client;
use self::queue::Queue;
pub(crate) use self::queue::{Priority, Ticket};
use self::workers::Workers;
pub(crate) use self::workers::{Load, Slots, WorkerKey};

/// What holds a slot of a worker, and which of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Answered, and done.
    Request,
    /// A WebSocket or an event stream: open for as long as both sides like.
    Stream,
}

impl Class {
    pub(crate) const ALL: [Self; 2] = [Self::Request, Self::Stream];
}

/// The limits of an app's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Requests that wait at once, of each class.
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

/// Who wants to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) class: Class,
    pub(crate) priority: Priority,
    pub(crate) client: Client,
}

/// A slot of a worker. Each must come back through [`Dispatcher::end`], once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    running: usize,
    pub(crate) worker: WorkerKey,
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Refusal {
    /// `queue_max` others wait.
    QueueFull,
    /// It waited for `queue_timeout`.
    QueueTimeout,
    /// It waited for `overload_wait`, or made room for a newer one, during an overload.
    Overload,
}

/// What became of a wish to wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waiting<T> {
    /// It waits; `displaced` does so no more.
    Queued {
        ticket: Ticket,
        displaced: Option<(T, Refusal)>,
    },
    Refused(T, Refusal),
}

/// What holds a slot.
#[derive(Clone, Copy, Debug)]
struct Running {
    worker: WorkerKey,
    class: Class,
    since: Timestamp,
}

/// A worker with requests over an age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub(crate) worker: WorkerKey,
    /// Since when the oldest runs.
    pub(crate) oldest: Timestamp,
    /// How many are over the age.
    pub(crate) requests: u32,
}

/// The slots of an app's workers and the requests that wait for one; `T` stands for a request.
#[derive(Debug)]
pub(crate) struct Dispatcher<T> {
    limits: Limits,
    workers: Workers,
    queues: [Queue<T>; 2],
    running: Slab<Running>,
    is_paused: bool,
}

impl<T> Dispatcher<T> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            workers: Workers::default(),
            queues: Class::ALL.map(|_| Queue::default()),
            running: Slab::new(),
            is_paused: false,
        }
    }

    /// A slot, if one is free. Nobody is overtaken: where one is free, nobody waits.
    pub(crate) fn take(&mut self, class: Class, now: Timestamp) -> Option<Permit> {
        if self.is_paused {
            return None;
        }
        let worker = self.workers.take(class)?;
        let running = self.running.insert(Running { worker, class, since: now });
        Some(Permit { running, worker })
    }

    /// Waits for a slot, after [`Dispatcher::take`] had none.
    pub(crate) fn wait(&mut self, wish: Wish, waiter: T, now: Timestamp) -> Waiting<T> {
        let is_overloaded = self.is_overloaded(wish.class, now);
        let Limits { queue_max, overload_delay, .. } = self.limits;
        let queue = &mut self.queues[wish.class as usize];
        if queue.len() < queue_max {
            let ticket = queue.push(wish, waiter, overload_delay, now);
            return Waiting::Queued { ticket, displaced: None };
        }
        let refusal = if is_overloaded { Refusal::Overload } else { Refusal::QueueFull };
        match queue.make_room(wish, is_overloaded) {
            Some(displaced) => {
                let ticket = queue.push(wish, waiter, overload_delay, now);
                Waiting::Queued { ticket, displaced: Some((displaced, refusal)) }
            }
            None => Waiting::Refused(waiter, refusal),
        }
    }

    /// Waits no longer; None: it does not wait.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<T> {
        self.queues[ticket.class as usize].leave(ticket)
    }

    /// Gives a slot back; answers of which class: see [`Dispatcher::next`].
    pub(crate) fn end(&mut self, permit: Permit) -> Class {
        let Running { worker, class, .. } = self.running.remove(permit.running);
        self.workers.end(worker, class);
        class
    }

    /// Who gets a slot next, if there are both. To be called after a slot came back, and until it
    /// answers None after anything that adds slots. The permit is for whoever is handed it: if
    /// nobody takes it, it comes back through [`Dispatcher::end`].
    pub(crate) fn next(&mut self, class: Class, now: Timestamp) -> Option<(T, Permit)> {
        if self.queues[class as usize].is_empty() {
            return None;
        }
        let permit = self.take(class, now)?;
        let is_overloaded = self.is_overloaded(class, now);
        let overload_delay = self.limits.overload_delay;
        match self.queues[class as usize].pop(is_overloaded, overload_delay, now) {
            Some(waiter) => Some((waiter, permit)),
            None => unreachable!("a queue that is not empty has a next"),
        }
    }

    /// Those who have waited too long.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Vec<(T, Refusal)> {
        let mut expired = Vec::new();
        for class in Class::ALL {
            let (patience, refusal) = self.patience(class, now);
            let queue = &mut self.queues[class as usize];
            while queue.oldest().is_some_and(|since| now.since(since) >= patience) {
                expired.extend(queue.pop_oldest().map(|waiter| (waiter, refusal)));
            }
        }
        expired
    }

    /// How long a request may wait, if things are as they are now, and what it is told then.
    fn patience(&self, class: Class, now: Timestamp) -> (Duration, Refusal) {
        let Limits { queue_timeout, overload_wait, .. } = self.limits;
        if self.is_overloaded(class, now) && overload_wait < queue_timeout {
            (overload_wait, Refusal::Overload)
        } else {
            (queue_timeout, Refusal::QueueTimeout)
        }
    }

    /// A pause and a start of all workers are waits by intention, no overloads.
    pub(crate) fn is_overloaded(&self, class: Class, now: Timestamp) -> bool {
        let is_serving = !self.is_paused && self.workers.any_serves();
        let Limits { overload_delay, overload_after, .. } = self.limits;
        let since = self.queues[class as usize].long_since(overload_delay, now);
        is_serving && since.is_some_and(|since| now.since(since) > overload_after)
    }

    /// How many wait.
    pub(crate) fn waiting(&self, class: Class) -> usize {
        self.queues[class as usize].len()
    }

    /// No slot is given from now on; who waits goes on waiting.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Slots are given again: see [`Dispatcher::next`].
    pub(crate) fn resume(&mut self, now: Timestamp) {
        self.is_paused = false;
        self.restart_waiting(now);
    }

    /// Whoever waited through a pause is no sign of an overload.
    fn restart_waiting(&mut self, now: Timestamp) {
        for queue in &mut self.queues {
            queue.restart_waiting(now);
        }
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

    /// Workers with requests (no streams) that run for `age` or longer.
    pub(crate) fn overdue(&self, age: Duration, now: Timestamp) -> Vec<Overdue> {
        let mut overdue: Vec<Overdue> = Vec::new();
        let requests = self.running.iter().filter(|(_, running)| running.class == Class::Request);
        for (_, running) in requests.filter(|(_, running)| now.since(running.since) >= age) {
            match overdue.iter_mut().find(|known| known.worker == running.worker) {
                Some(known) => {
                    known.oldest = running.since.min(known.oldest);
                    known.requests += 1;
                }
                None => {
                    let Running { worker, since: oldest, .. } = *running;
                    overdue.push(Overdue { worker, oldest, requests: 1 });
                }
            }
        }
        overdue
    }
}
