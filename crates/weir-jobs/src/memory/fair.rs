//! Fair shares for the tenants of a queue. A change of `fair_by` adds all jobs to new lanes at once.

use std::sync::Arc;

use weir_base::clock::Timestamp;

use super::lanes::MemoryLanes;
use super::state::{JobId, MemoryJobState, MemoryQueue, MemoryState};
use crate::lanes::Room;
use crate::model::QueueName;

impl MemoryQueue {
    /// Returns the slots of the queue, for a fetch while so many others wait for it.
    pub(super) fn room(&self, fetches_waiting: impl FnOnce() -> u32) -> Room {
        let Some(fair) = self.fair.as_ref().filter(|fair| fair.rules.headroom > 0) else {
            return Room::UNLIMITED;
        };
        let free = match fair.concurrency {
            Some(most) => most.saturating_sub(self.reserved),
            None => fetches_waiting().saturating_add(1),
        };
        Room { slots: self.reserved.saturating_add(free), free, headroom: fair.rules.headroom }
    }
}

impl MemoryState {
    /// Returns the lanes for a queue without jobs.
    pub(super) fn lanes_for(&self, name: &QueueName) -> Option<MemoryLanes<JobId>> {
        let rules = self.allocation.of(name);
        rules.fair.as_ref().map(|fair| MemoryLanes::new(fair, rules))
    }

    /// Applies changed rules to the lanes of a queue.
    pub(super) fn allocate_lanes(&mut self, name: &QueueName) {
        let rules = self.allocation.of(name).clone();
        let queue = self.queue(name);
        queue.rate.set(rules.rate);
        if let (Some(lanes), Some(fair)) = (&mut queue.fair, &rules.fair)
            && lanes.has_lanes_of(fair)
        {
            return lanes.apply(fair, &rules);
        }
        queue.fair = rules.fair.as_ref().map(|fair| MemoryLanes::new(fair, &rules));
        let Self { jobs, queues, .. } = self;
        let Some(queue) = queues.get_mut(name) else { return };
        for (id, job) in jobs.iter_mut().filter(|(_, job)| job.queue == *name) {
            job.lane = queue.fair.as_mut().and_then(|fair| match &job.rest {
                MemoryJobState::Waiting => Some(fair.add(*id, job.order, &job.json)),
                MemoryJobState::Reserved(_) => Some(fair.start(&job.json)),
                MemoryJobState::In(_) => None,
            });
        }
    }

    /// Wakes the tenants of these queues whose next job may start, and lets no queue owe more than its rate allows.
    pub(super) fn wake<'a>(
        &mut self,
        queues: impl IntoIterator<Item = &'a QueueName>,
        now: Timestamp,
    ) {
        self.resources.limit_debt(now);
        let blocked = self.blocked_resources(now);
        let classes = Arc::clone(&self.resources.classes);
        for name in queues {
            let Some(queue) = self.queues.get_mut(name) else { continue };
            queue.rate.limit_debt(now);
            if let Some(fair) = &mut queue.fair {
                fair.wake(now);
                fair.unblock(&classes, blocked);
            }
        }
    }

    /// Remembers when the next jobs of these queues may start, for a fetch that waits.
    pub(super) fn sleep(&mut self, queues: &[QueueName], now: Timestamp) {
        for name in queues {
            let Some(queue) = self.queues.get_mut(name) else { continue };
            if queue.paused || queue.lane.is_empty() {
                continue;
            }
            let of_queue = queue.rate.blocked_until(now);
            let of_tenants = || queue.fair.as_ref().and_then(MemoryLanes::next_wake);
            let by_rates = of_queue.or_else(of_tenants);
            let by_resources = self.wait_for_resources(name, now);
            if let Some(at) = by_rates.into_iter().chain(by_resources).min() {
                self.sleeping.insert((at, name.clone()));
            }
        }
    }

    /// Counts the start of a reserved job for the rates of its queue and its tenant.
    pub(super) fn count_start(&mut self, id: JobId, now: Timestamp) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(queue) = self.queues.get_mut(&job.queue) else { return };
        if let MemoryJobState::Reserved(held) = &job.rest {
            self.resources.start(held.uses, now);
        }
        queue.rate.start(now);
        if let (Some(fair), Some(lane)) = (&mut queue.fair, job.lane) {
            fair.count_start(lane, now);
        }
    }

    /// Returns the queues of which a job may start by `now`.
    pub(super) fn take_awake(&mut self, now: Timestamp) -> Vec<QueueName> {
        let mut awake = Vec::new();
        while self.sleeping.first().is_some_and(|(at, _)| *at <= now) {
            awake.extend(self.sleeping.pop_first().map(|(_, name)| name));
        }
        // Queues that wait for a resource have it in turn if its rate allows a job again.
        self.used.free(self.resources.open_again(&self.used, now));
        awake
    }

    /// Ends a reserved job for its tenant.
    pub(super) fn end_lane(&mut self, id: JobId, now: Timestamp) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let MemoryJobState::Reserved(held) = &job.rest else { return };
        let fair = self.queues.get_mut(&job.queue).and_then(|queue| queue.fair.as_mut());
        if let (Some(fair), Some(lane)) = (fair, job.lane.take()) {
            fair.end(lane, Some(now.since(held.since)));
        }
    }
}
