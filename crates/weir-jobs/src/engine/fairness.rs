//! Gives the jobs of queues with lanes their lanes: those that were there before the lanes are added in
//! slices, so that a queue of millions of jobs does not delay other work.

use std::collections::HashMap;

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::arena::{EntryState, JobIndex};
use super::core::Engine;
use super::fair_queue::{LaneChoice, Relaning, RunningLane};
use super::journal::read_body_ahead;
use super::queues::EngineQueue;
use crate::allocation::Allocation;
use crate::lanes::Room;
use crate::model::QueueName;

/// Jobs that are added before other work continues: some 0.5 ms, mostly for reading them. Small in the
/// simulation, so that crashes happen in between.
const SLICE_JOBS: usize = if cfg!(test) { 3 } else { 256 };

/// Jobs that a fetch adds if no job of the queue has a lane yet.
const JOBS_PER_FETCH: usize = if cfg!(test) { 1 } else { 32 };

impl<D: Disk> Engine<D> {
    /// Applies the rules of dispatch.
    pub(crate) fn allocate(&mut self, allocation: Allocation) {
        self.rules = allocation;
        let rules = self.rules_in_force();
        let old = std::mem::replace(&mut self.allocation, rules);
        self.dispatcher.retain(&old, &self.allocation);
        self.apply_resources();
        let state = &mut self.state;
        let queues = state.queues.allocate(&self.allocation, &state.resources, &mut self.random);
        self.begin_relaning(&queues);
        self.apply_sizing();
        // What can't be written now, the timer writes.
        self.records_due = self.record_limited().is_err().then(Timestamp::default);
    }

    fn begin_relaning(&mut self, queues: &[u16]) {
        if queues.is_empty() {
            return;
        }
        let mut running: HashMap<u16, Vec<(Box<str>, u64)>> =
            queues.iter().map(|queue| (*queue, Vec::new())).collect();
        for held in self.state.reserved.iter() {
            if let Some(running) = running.get_mut(&self.state.arena.get(held.job).queue) {
                running.push((held.jid.clone(), held.ticket));
            }
        }
        self.relaning.retain(|earlier| !running.contains_key(&earlier.queue));
        for queue in queues {
            let Some(fair) = &self.state.queues.get(*queue).fair else { continue };
            let running = running.remove(queue).unwrap_or_default();
            self.relaning.push(Relaning { queue: *queue, generation: fair.generation, running });
        }
    }

    /// Adds a slice of jobs to their lanes. Returns their queue.
    pub(crate) fn relane_slice(&mut self) -> Option<u16> {
        let place = self.relaning.len().checked_sub(1)?;
        let queue = self.relaning[place].queue;
        self.relane(place, SLICE_JOBS);
        Some(queue)
    }

    /// Adds some jobs of queues to their lanes, if none of their jobs has one.
    pub(crate) fn relane_for_fetch(&mut self, queues: &[QueueName]) {
        if self.relaning.is_empty() {
            return;
        }
        let numbers = queues.iter().filter_map(|name| self.state.queues.number(name.as_str()));
        let numbers: Vec<u16> = numbers.collect();
        for place in (0..self.relaning.len()).rev() {
            let number = self.relaning[place].queue;
            let has_none =
                |queue: &EngineQueue| queue.fair.as_ref().is_some_and(|it| it.waiting() == 0);
            if numbers.contains(&number) && has_none(self.state.queues.get(number)) {
                self.relane(place, JOBS_PER_FETCH);
            }
        }
    }

    fn relane(&mut self, place: usize, max: usize) {
        let Relaning { queue, generation, .. } = self.relaning[place];
        let fair = self.state.queues.find(queue).and_then(|queue| queue.fair.as_ref());
        let Some(up_to) =
            fair.filter(|fair| fair.generation == generation).map(|fair| fair.laned_up_to)
        else {
            // The queue is gone, or has other lanes.
            self.relaning.remove(place);
            return;
        };
        let running = &mut self.relaning[place].running;
        let counted = running.split_off(running.len().saturating_sub(max));
        let max = max - counted.len();
        for (jid, ticket) in counted {
            self.count_running(queue, &jid, ticket);
        }
        let arena = &self.state.arena;
        let waiting = self.state.queues.get(queue).lane.after(up_to, arena).take(max);
        let jobs: Vec<JobIndex> = waiting.collect();
        for job in &jobs {
            self.add_to_lane(queue, *job);
        }
        if jobs.len() < max
            && let Some(fair) = &mut self.state.queues.get_mut(queue).fair
        {
            fair.laned_up_to = None;
            self.relaning.remove(place);
        }
    }

    fn add_to_lane(&mut self, queue: u16, job: JobIndex) {
        let choice = self.lane_of(queue, job);
        let order = self.state.arena.get(job).order;
        let super::state::EngineState { queues, links, arena, .. } = &mut self.state;
        if let Some(fair) = &mut queues.get_mut(queue).fair {
            fair.laned_up_to = Some(order);
            fair.add_to_lane(job, choice, links, arena);
        }
    }

    /// Counts a job in progress for its tenant, unless it has ended.
    fn count_running(&mut self, queue: u16, jid: &str, ticket: u64) {
        let Some(job) = self.state.reserved.with_ticket(jid, ticket).map(|held| held.job) else {
            return;
        };
        let choice = self.lane_of(queue, job);
        let fair = &mut self.state.queues.get_mut(queue).fair;
        if let (Some(fair), Some(held)) = (fair, self.state.reserved.with_ticket(jid, ticket)) {
            held.lane = fair.add_running(choice);
        }
    }

    /// Returns the lane of a job from its record. A job that can't be read has no tenant and no type; its fetch finds
    /// that out.
    fn lane_of(&mut self, queue: u16, job: JobIndex) -> LaneChoice {
        let Some(fair) = &self.state.queues.get(queue).fair else { return LaneChoice::NONE };
        let position = self.state.arena.get(job).position;
        let body = read_body_ahead(&mut self.ahead, position);
        body.map_or(LaneChoice::NONE, |body| fair.choice(body.json))
    }

    /// Returns the lane for a job with this text that moves to `rest`.
    pub(crate) fn lane_for(&self, queue: u16, rest: EntryState, json: &[u8]) -> LaneChoice {
        match &self.state.queues.get(queue).fair {
            Some(fair) if rest == EntryState::Waiting => fair.choice(json),
            _ => LaneChoice::NONE,
        }
    }

    /// Returns the lane for a job that was taken from `running` and waits again.
    pub(crate) fn lane_again(
        &mut self,
        queue: u16,
        job: JobIndex,
        running: Option<RunningLane>,
    ) -> LaneChoice {
        let fair = self.state.queues.get(queue).fair.as_ref();
        match running.filter(|running| fair.is_some_and(|fair| fair.is_current(*running))) {
            Some(running) => LaneChoice::Same(running),
            None => self.lane_of(queue, job),
        }
    }

    /// Ends a job in progress for its tenant. `since`: when it started; `None`: nothing is charged.
    pub(crate) fn end_lane(
        &mut self,
        queue: u16,
        running: Option<RunningLane>,
        since: Option<Timestamp>,
        now: Timestamp,
    ) {
        if let Some(running) = running
            && let Some(fair) = self.state.queues.find_mut(queue).and_then(|it| it.fair.as_mut())
        {
            fair.end(running, since.map(|since| now.since(since)));
        }
    }

    /// Returns the slots of a queue, for a fetch while so many others wait for it.
    pub(crate) fn room(queue: &EngineQueue, fetches_waiting: impl FnOnce() -> u32) -> Room {
        let Some(fair) = queue.fair.as_ref().filter(|fair| fair.headroom > 0) else {
            return Room::UNLIMITED;
        };
        let running = queue.reserved;
        let free = match fair.concurrency {
            Some(most) => most.saturating_sub(running),
            None => fetches_waiting().saturating_add(1),
        };
        Room { slots: running.saturating_add(free), free, headroom: fair.headroom }
    }
}
