//! Shared resources of jobs: [`crate::resources`]. Jobs in progress are counted by their reservations
//! ([`super::reservations`]), so that none can be forgotten.

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::core::Engine;
use super::queues::EngineQueue;
use crate::lanes::BlockedJobs;
use crate::resources::ResourceSet;
use crate::store::{Counts, QueueCounts};

impl<D: Disk> Engine<D> {
    /// Applies the rules of resources. Jobs in progress count, also those that were restored after a crash.
    pub(crate) fn apply_resources(&mut self) {
        let state = &mut self.state;
        // Queues that wait are offered again when the rules are applied.
        state.resources.apply(&self.allocation.resources);
        let (resources, arena, queues) = (&state.resources, &state.arena, &state.queues);
        state.reserved.recount(|held| {
            let queue = &queues.get(arena.get(held.job).queue).name;
            resources.of_job(queue.as_str(), held.jobtype)
        });
    }

    /// Returns the resources of which no job may start now.
    pub(crate) fn blocked_resources(&self, now: Timestamp) -> ResourceSet {
        self.state.resources.blocked(&self.state.reserved.used, now)
    }

    /// Lets the queues that wait for a resource have it in turn if its rate allows a job again.
    pub(crate) fn free_by_rates(&mut self, now: Timestamp) {
        let open = self.state.resources.open_again(&self.state.reserved.used, now);
        self.state.reserved.used.free(open);
    }

    /// Returns the queues that wait for a resource that has room again, longest waiting first.
    pub(crate) fn take_freed(&mut self) -> Vec<u16> {
        let freed = self.state.reserved.used.take_freed();
        self.state.resources.take_waiting(freed)
    }

    /// Remembers that a fetch waits for a queue. Returns when its jobs may start whose resources have no room now.
    pub(crate) fn wait_for_resources(&mut self, number: u16, now: Timestamp) -> Option<Timestamp> {
        if self.state.resources.is_empty() {
            return None;
        }
        let blocked = self.blocked_resources(now);
        let state = &mut self.state;
        let queue = state.queues.get(number);
        let sets: Vec<ResourceSet> = if queue.uses.is_open(blocked) {
            let fair = queue.fair.as_ref();
            fair.map(|fair| fair.awaited(blocked, &state.links)).unwrap_or_default()
        } else {
            vec![queue.uses]
        };
        let used = &state.reserved.used;
        let resources = &mut state.resources;
        let times = sets
            .into_iter()
            .map(|uses| resources.wait(&number, uses.intersection(blocked), used, now));
        // All of them are noted.
        times.collect::<Vec<_>>().into_iter().flatten().min()
    }

    /// Adds the state of the resources, and which jobs wait for them.
    pub(crate) fn add_resources(&self, counts: &mut Counts, now: Timestamp) {
        let state = &self.state;
        counts.resources = state.resources.counts(&state.reserved.used);
        if counts.resources.is_empty() {
            return;
        }
        let blocked = self.blocked_resources(now);
        for counted in &mut counts.queues {
            let number = state.queues.number(counted.name.as_str());
            let Some(queue) = number.and_then(|number| state.queues.find(number)) else { continue };
            let waiting = self.waiting_for(queue, counted, blocked);
            counted.blocked.resource = waiting.iter().map(|(_, jobs)| jobs).sum();
            counted.blocked_by_resource =
                state.resources.name_blocked(&waiting, blocked, &mut counts.resources);
        }
    }

    fn waiting_for(
        &self,
        queue: &EngineQueue,
        counted: &QueueCounts,
        blocked: ResourceSet,
    ) -> Vec<(ResourceSet, u64)> {
        let BlockedJobs { concurrency, rate, .. } = counted.blocked;
        let of_queue = queue.lane.len() as u64;
        if of_queue == 0 || concurrency + rate == of_queue {
            return Vec::new();
        }
        if !queue.uses.is_open(blocked) {
            return vec![(queue.uses, of_queue - concurrency - rate)];
        }
        let fair = queue.fair.as_ref();
        fair.map(|fair| fair.waiting_for(blocked, &self.state.links)).unwrap_or_default()
    }
}
