//! Which job a free thread runs.

use weir_control::allocation::{self, Demand};

use super::simulation::Simulation;
use crate::scenario::Order;

impl Simulation<'_> {
    /// Starts all jobs that may run.
    pub(super) fn start_jobs(&mut self) {
        for group in 0..self.groups.len() {
            self.fill(group);
        }
    }

    /// Starts jobs after one has arrived in a queue.
    pub(super) fn start_jobs_of(&mut self, queue: usize) {
        for at in 0..self.serving[queue].len() {
            self.fill(self.serving[queue][at]);
        }
    }

    /// Starts jobs after one has ended. With a limit on all threads, or one of its class, the next job may belong to
    /// another group.
    pub(super) fn on_thread_free(&mut self, group: usize, queue: usize) {
        self.fill(group);
        let is_shared =
            self.actuators.threads.is_some() || self.actuators.caps.iter().any(Option::is_some);
        if is_shared {
            self.start_jobs();
        } else {
            self.start_jobs_of(queue);
        }
    }

    fn fill(&mut self, group: usize) {
        if self.plant.groups[group].is_managed && self.actuators.allocation.is_some() {
            self.fill_allocated();
        } else {
            self.fill_in_order(group);
        }
    }

    /// Returns the threads of a group that may start a job.
    fn free_threads(&self, group: usize) -> u32 {
        let live = &self.groups[group];
        let own = (live.running * self.plant.groups[group].threads).saturating_sub(live.busy);
        if self.plant.groups[group].is_managed { own.min(self.free_of_limit()) } else { own }
    }

    fn free_of_limit(&self) -> u32 {
        let Some(limit) = self.actuators.threads else { return u32::MAX };
        limit.saturating_sub(self.managed_busy())
    }

    pub(super) fn managed_busy(&self) -> u32 {
        self.plant.managed().map(|(index, _)| self.groups[index].busy).sum()
    }

    /// Serves the queues of a group in its own order.
    fn fill_in_order(&mut self, group: usize) {
        while self.free_threads(group) > 0 {
            let Some(queue) = self.choose(group) else { return };
            let Some((class, job)) = self.lines.take(queue, false) else { return };
            self.start_job(class, group, job);
        }
    }

    fn choose(&mut self, group: usize) -> Option<usize> {
        let queues = &self.plant.groups[group].queues;
        let has_job = |queue: &&(usize, u32)| self.lines.oldest_eligible(queue.0).is_some();
        if self.scenario.workers[group].order == Order::Strict {
            return queues.iter().find(has_job).map(|queue| queue.0);
        }
        // A queue is first with a probability in proportion to its weight among those with jobs, as Sidekiq's shuffle
        // has it.
        let ready: Vec<(usize, u32)> = queues.iter().filter(has_job).copied().collect();
        let total: u32 = ready.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.choices.u32(0..total.max(1));
        ready
            .into_iter()
            .find(|(_, weight)| {
                let is_drawn = drawn < *weight;
                drawn = drawn.saturating_sub(*weight);
                is_drawn
            })
            .map(|(queue, _)| queue)
    }

    /// Serves all managed queues by the allocation: reserved threads first, the others by need.
    fn fill_allocated(&mut self) {
        loop {
            let free = self.free_allocated();
            let Some(group) = self.emptiest_group().filter(|_| free > 0) else { return };
            let demands = self.demands();
            let Some(queue) = allocation::choose(&demands, free) else { return };
            let fresh =
                self.actuators.allocation.as_ref().and_then(|it| it.fresh.get(queue).copied());
            let is_late = demands[queue].age_seconds > demands[queue].target_seconds;
            let Some((class, job)) = self.lines.take(queue, fresh == Some(true) && is_late) else {
                return;
            };
            self.start_job(class, group, job);
        }
    }

    fn free_allocated(&self) -> u32 {
        let threads =
            self.plant.managed().map(|(index, group)| self.groups[index].running * group.threads);
        let free = threads.sum::<u32>().saturating_sub(self.managed_busy());
        free.min(self.free_of_limit())
    }

    /// Returns the managed group with the largest share of idle threads.
    fn emptiest_group(&self) -> Option<usize> {
        let idle = |index: usize| {
            let all = f64::from(self.groups[index].running * self.plant.groups[index].threads);
            (all - f64::from(self.groups[index].busy)) / all.max(1.0)
        };
        let groups = self.plant.managed().map(|(index, _)| (index, idle(index)));
        let free = groups.filter(|(_, idle)| *idle > 0.0);
        free.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
    }

    fn demands(&self) -> Vec<Demand> {
        let guarantees = self.actuators.allocation.as_ref().map(|it| it.guarantees.as_slice());
        let queues = self.plant.roster.queues.iter().enumerate().map(|(index, queue)| {
            let oldest = self.lines.oldest_eligible(index);
            Demand {
                guarantee: guarantees.and_then(|it| it.get(index).copied()).unwrap_or(0),
                in_flight: self.lines.in_flight(index),
                is_waiting: queue.is_managed && oldest.is_some(),
                age_seconds: oldest.map_or(0.0, |oldest| self.now - oldest),
                target_seconds: queue.target_seconds,
            }
        });
        queues.collect()
    }
}
