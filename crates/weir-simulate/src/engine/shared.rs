//! Processor sharing: all jobs in a resource progress at one speed, which depends on their total load. The database is
//! one, and the processors of a group are one each.
//!
//! Progress is counted for all jobs together, so that an arrival or a departure costs O(log n): a job that needs `work`
//! ends when the common progress has grown by `work`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::events::Moment;

/// A shared resource.
#[derive(Debug)]
pub(super) struct Shared {
    /// Load that progresses at full speed.
    pub(super) capacity: f64,
    /// Loss of throughput beyond it ([`crate::scenario::DatabaseModel::contention`]).
    contention: f64,
    /// Seconds of work that each job which was there all the time has had.
    progress: f64,
    /// The time up to which `progress` is right.
    updated: f64,
    load: f64,
    ends: BinaryHeap<Reverse<(Moment, u32)>>,
}

impl Shared {
    pub(super) fn new(capacity: f64, contention: f64) -> Self {
        Self {
            capacity,
            contention,
            progress: 0.0,
            updated: 0.0,
            load: 0.0,
            ends: BinaryHeap::new(),
        }
    }

    /// Returns the progress per second of each job, at most 1.
    pub(super) fn speed(&self) -> f64 {
        if self.load <= self.capacity {
            return 1.0;
        }
        let beyond = (self.load - self.capacity) / self.capacity;
        self.capacity / self.load / (1.0 + self.contention * beyond)
    }

    fn advance(&mut self, now: f64) {
        self.progress += self.speed() * (now - self.updated);
        self.updated = now;
    }

    pub(super) fn set_capacity(&mut self, now: f64, capacity: f64) {
        self.advance(now);
        self.capacity = capacity;
    }

    pub(super) fn add(&mut self, now: f64, job: u32, work: f64, load: f64) {
        self.advance(now);
        self.load += load;
        self.ends.push(Reverse((Moment(self.progress + work), job)));
    }

    /// Returns when the next job ends, if nothing changes before.
    pub(super) fn next(&self) -> Option<f64> {
        let Reverse((Moment(end), _)) = self.ends.peek()?;
        Some(self.updated + (end - self.progress).max(0.0) / self.speed())
    }

    /// Removes the job that ends next. The caller passes the load that it added to [`Self::release`].
    pub(super) fn pop(&mut self, now: f64) -> Option<u32> {
        self.advance(now);
        self.ends.pop().map(|Reverse((_, job))| job)
    }

    pub(super) fn release(&mut self, load: f64) {
        // Without jobs the load is exactly 0: rounding errors do not add up.
        self.load = if self.ends.is_empty() { 0.0 } else { (self.load - load).max(0.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_on_a_resource_for_one_take_twice_as_long() {
        let mut shared = Shared::new(1.0, 0.0);
        shared.add(0.0, 1, 1.0, 1.0);
        shared.add(0.0, 2, 3.0, 1.0);
        assert_eq!(shared.next(), Some(2.0));
        assert_eq!(shared.pop(2.0), Some(1));
        shared.release(1.0);
        // The other one has two seconds of work left, and the resource for itself.
        assert_eq!(shared.next(), Some(4.0));
    }

    #[test]
    fn contention_costs_throughput() {
        let mut shared = Shared::new(10.0, 0.5);
        (0..20).for_each(|job| shared.add(0.0, job, 1.0, 1.0));
        // Half of the speed by sharing, and two thirds of that by contention.
        assert!((shared.speed() - 0.5 / 1.5).abs() < 1e-12);
    }
}
