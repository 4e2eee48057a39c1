//! Shared resources of jobs: [`crate::resources`]. A fetch looks through the jobs of a queue without `fair_by` for one
//! that may start; the embedded store does not.

use weir_base::clock::Timestamp;

use super::state::{JobId, MemoryJob, MemoryJobState, MemoryQueue, MemoryState};
use crate::model::QueueName;
use crate::resources::{ResourceSet, ResourceTable, TypeKey};
use crate::store::Counts;

impl MemoryState {
    /// Returns the resources that a job uses.
    pub(super) fn uses(resources: &ResourceTable<QueueName>, job: &MemoryJob) -> ResourceSet {
        resources.of_job(job.queue.as_str(), TypeKey::of(&job.jobtype))
    }

    /// Applies the rules of resources. Jobs in progress count.
    pub(super) fn apply_resources(&mut self) {
        self.resources.apply(&self.allocation.resources);
        self.used.clear();
        for (_, id) in &self.expiry {
            let Some(job) = self.jobs.get_mut(id) else { continue };
            let uses = Self::uses(&self.resources, job);
            if let MemoryJobState::Reserved(held) = &mut job.rest {
                held.uses = uses;
                self.used.add(uses);
            }
        }
    }

    /// Returns the resources of which no job may start now.
    pub(super) fn blocked_resources(&self, now: Timestamp) -> ResourceSet {
        self.resources.blocked(&self.used, now)
    }

    /// Returns the oldest job of a queue that may start.
    pub(super) fn oldest_open(&self, queue: &MemoryQueue, blocked: ResourceSet) -> Option<JobId> {
        queue.lane.values().copied().find(|id| self.is_open(*id, blocked))
    }

    /// Returns the newest job of a queue that may start, if its order is at least `from`.
    pub(super) fn newest_open(
        &self,
        queue: &MemoryQueue,
        from: u64,
        blocked: ResourceSet,
    ) -> Option<JobId> {
        let newest_first = queue.lane.range(from..).rev().map(|(_, id)| *id);
        newest_first.into_iter().find(|id| self.is_open(*id, blocked))
    }

    fn is_open(&self, id: JobId, blocked: ResourceSet) -> bool {
        Self::uses(&self.resources, self.job(id)).is_open(blocked)
    }

    /// Returns the queues that wait for a resource that has room again, longest waiting first.
    pub(super) fn take_freed(&mut self) -> Vec<QueueName> {
        let freed = self.used.take_freed();
        self.resources.take_waiting(freed)
    }

    /// Remembers that a fetch waits for a queue. Returns when its jobs may start whose resources have no room now.
    pub(super) fn wait_for_resources(
        &mut self,
        name: &QueueName,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let blocked = self.blocked_resources(now);
        let mut sets: Vec<ResourceSet> =
            self.waiting_for(name, blocked).into_iter().map(|(uses, _)| uses).collect();
        if let Some(fair) = self.queues.get(name).and_then(|queue| queue.fair.as_ref()) {
            let newest = fair.blocked_newest().map(|class| self.resources.classes.uses(class));
            sets.extend(newest.filter(|uses| !uses.is_open(blocked)));
        }
        let (resources, used) = (&mut self.resources, &self.used);
        let wait = |uses: ResourceSet| resources.wait(name, uses.intersection(blocked), used, now);
        let times: Vec<Option<Timestamp>> = sets.into_iter().map(wait).collect();
        times.into_iter().flatten().min()
    }

    /// Returns the resources of jobs that wait for some of `blocked`, and the number of these jobs.
    fn waiting_for(&self, name: &QueueName, blocked: ResourceSet) -> Vec<(ResourceSet, u64)> {
        let Some(queue) = self.queues.get(name).filter(|_| !self.resources.is_empty()) else {
            return Vec::new();
        };
        let of_queue = self.resources.of_queue(name.as_str());
        if !of_queue.is_open(blocked) {
            return vec![(of_queue, queue.lane.len() as u64)];
        }
        let waiting: Vec<(ResourceSet, u64)> = match &queue.fair {
            Some(fair) => {
                let uses = |(class, jobs)| (self.resources.classes.uses(class), jobs);
                fair.blocked_classes().map(uses).collect()
            }
            None => {
                let jobs = queue.lane.values();
                jobs.map(|id| (Self::uses(&self.resources, self.job(*id)), 1)).collect()
            }
        };
        waiting.into_iter().filter(|(uses, _)| !uses.is_open(blocked)).collect()
    }

    /// Adds the state of the resources, and which jobs wait for them.
    pub(super) fn add_resources(&self, counts: &mut Counts, now: Timestamp) {
        counts.resources = self.resources.counts(&self.used);
        let blocked = self.blocked_resources(now);
        for counted in &mut counts.queues {
            if counted.blocked.total() == counted.depth {
                continue;
            }
            let waiting = self.waiting_for(&counted.name, blocked);
            counted.blocked.resource = waiting.iter().map(|(_, jobs)| jobs).sum();
            counted.blocked_by_resource =
                self.resources.name_blocked(&waiting, blocked, &mut counts.resources);
        }
    }
}
