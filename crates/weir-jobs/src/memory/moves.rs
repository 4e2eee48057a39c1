//! Moving jobs on behalf of operators and timers: requeue, kill, discard, and what is due. Also
//! pausing, clearing and removing queues.

use weir_base::clock::Timestamp;

use super::state::{JobId, MemoryJob, MemoryJobState, MemoryState};
use crate::allocation::Allocation;
use crate::job_text;
use crate::metrics::JobServerLimit;
use crate::model::{EntryKey, JobLocation, QueueName, SetName};
use crate::rules;
use crate::store::{Action, QueueAction, Selection, StoreError};
use crate::tracks::TrackState;

/// The result of an action.
#[derive(Debug, Default)]
pub(super) struct Acted {
    pub(super) jobs: u64,
    /// Queues with new jobs.
    pub(super) queues: Vec<QueueName>,
}

impl MemoryState {
    /// Applies `action` to the selected jobs of `place`, in order.
    pub(super) fn act(
        &mut self,
        place: &JobLocation,
        what: &Selection,
        action: Action,
        now: Timestamp,
    ) -> Acted {
        let selected: Vec<JobId> = match what {
            Selection::All => self.in_place(place),
            Selection::Entries(keys) => {
                keys.iter().filter_map(|key| self.entry(place, key)).collect()
            }
        };
        let mut acted = Acted::default();
        for id in selected {
            // A key may be given twice, and a kill may push another job out of the full dead set.
            if !self.jobs.get(&id).is_some_and(|job| job.rests_in(place)) {
                continue;
            }
            acted.jobs += 1;
            if let Action::Reschedule(at) = action {
                self.reschedule(id, at);
                continue;
            }
            self.features.set(id, self.features.get(id).unlocked());
            match action {
                Action::Requeue => acted.queues.push(self.requeue(id, now)),
                Action::Kill => {
                    self.features.set(id, self.features.get(id).died());
                    self.kill(id, now);
                }
                Action::Discard => self.forget(id),
                Action::Reschedule(_) => {}
            }
        }
        acted
    }

    /// Moves jobs of `place` to the end of another queue.
    pub(super) fn move_to(
        &mut self,
        place: &JobLocation,
        keys: &[EntryKey],
        queue: &QueueName,
        paused: bool,
        now: Timestamp,
    ) -> Result<Acted, StoreError> {
        self.make_queues([queue.as_str()].into_iter())?;
        self.queue(queue).paused |= paused;
        let mut moved = Acted::default();
        for key in keys {
            let Some(id) = self.entry(place, key) else { continue };
            let job = self.job(id);
            let text = job_text::in_queue(&job.json, job.base_bytes, queue.as_str());
            let Some((json, base_bytes)) = text else { continue };
            self.rewrite(id, job_text::enqueued(&json, base_bytes, now));
            self.features.set(id, self.features.get(id).unlocked());
            let order = self.next_order(now);
            self.rest_in(id, queue, base_bytes, order);
            self.note_arrival(id, false, now);
            self.note_track(id, TrackState::Enqueued, now);
            moved.jobs += 1;
        }
        moved.queues.extend((moved.jobs > 0).then(|| queue.clone()));
        Ok(moved)
    }

    pub(super) fn in_place(&self, place: &JobLocation) -> Vec<JobId> {
        match place {
            JobLocation::Set(set) => self.set(*set).iter().map(|(_, id)| *id).collect(),
            JobLocation::Queue(name) => {
                let lane = self.queues.get(name).map(|queue| queue.lane.values().copied());
                lane.into_iter().flatten().collect()
            }
        }
    }

    /// Returns the job that `key` identifies in `place`.
    pub(super) fn entry(&self, place: &JobLocation, key: &EntryKey) -> Option<JobId> {
        self.entries(place, key).next()
    }

    /// Returns the jobs that `key` identifies: several only if a producer used a jid twice in one
    /// batch.
    pub(super) fn entries<'a>(
        &'a self,
        place: &'a JobLocation,
        key: &'a EntryKey,
    ) -> impl Iterator<Item = JobId> + 'a {
        let twins = self.by_jid.get(&key.jid).into_iter().flatten().copied();
        twins.filter(move |id| {
            let job = self.job(*id);
            job.order == key.order && job.rests_in(place)
        })
    }

    /// Moves a job to the end of its queue. Returns the queue.
    fn requeue(&mut self, id: JobId, now: Timestamp) -> QueueName {
        let order = self.next_order(now);
        let job = self.job(id);
        let name = job.queue.clone();
        let is_retry = matches!(job.rest, MemoryJobState::In(SetName::Retries));
        let json = job_text::enqueued(&job.json, job.base_bytes, now);
        self.rewrite(id, json);
        self.rest(id, MemoryJobState::Waiting, order);
        self.note_track(id, TrackState::Enqueued, now);
        self.note_arrival(id, is_retry, now);
        name
    }

    /// Changes when a scheduled job or a retry is due.
    fn reschedule(&mut self, id: JobId, at: Timestamp) {
        let job = self.job(id);
        let MemoryJobState::In(set @ (SetName::Scheduled | SetName::Retries)) = job.rest else {
            return;
        };
        let at = rules::spread(at, &job.jid);
        let (json, base_bytes) = job_text::due_at(&job.json, job.base_bytes, at);
        self.rewrite(id, json);
        self.set_base_bytes(id, base_bytes);
        self.rest(id, MemoryJobState::In(set), at.as_micros());
    }

    fn kill(&mut self, id: JobId, now: Timestamp) {
        self.rest(id, MemoryJobState::In(SetName::Dead), now.as_micros());
        self.note_track(id, TrackState::Dead, now);
        self.trim_dead();
    }

    /// Deletes the oldest dead jobs until the dead set is within its limit.
    pub(super) fn trim_dead(&mut self) {
        while self.set(SetName::Dead).len() > self.limits.dead_jobs_max {
            let Some((_, oldest)) = self.set(SetName::Dead).first().copied() else {
                break;
            };
            self.metrics.limit_hit(JobServerLimit::DeadJobsMax);
            self.forget(oldest);
        }
    }

    /// Pauses, resumes, clears or removes a queue. Ignores unknown ones. Returns the number of jobs
    /// deleted.
    pub(super) fn act_on_queue(&mut self, name: &QueueName, action: QueueAction) -> u64 {
        let Some(queue) = self.queues.get_mut(name) else {
            return 0;
        };
        match action {
            QueueAction::Pause => queue.paused = true,
            QueueAction::Resume => queue.paused = false,
            QueueAction::Clear => return self.clear(name),
            QueueAction::Remove => return self.remove(name),
        }
        0
    }

    fn clear(&mut self, name: &QueueName) -> u64 {
        let waiting = self.in_place(&JobLocation::Queue(name.clone()));
        for id in &waiting {
            self.forget(*id);
        }
        waiting.len() as u64
    }

    fn remove(&mut self, name: &QueueName) -> u64 {
        let gone = self.clear(name);
        if let Some(queue) = self.queues.get_mut(name) {
            queue.hide();
            if queue.jobs == 0 {
                self.queues.remove(name);
            }
        }
        gone
    }

    /// Applies `allocation`. Returns all queues, since their waiting jobs may be runnable now.
    pub(super) fn allocate(&mut self, allocation: Allocation) -> Vec<QueueName> {
        self.dispatcher.retain(&self.allocation, &allocation);
        self.allocation = allocation;
        self.apply_resources();
        let queues: Vec<QueueName> = self.queues.keys().cloned().collect();
        for name in &queues {
            self.allocate_lanes(name);
        }
        queues
    }

    /// Processes everything that is due. Returns the queues that may have jobs for waiting fetches,
    /// in order.
    pub(super) fn tick(&mut self, now: Timestamp) -> Vec<QueueName> {
        let mut queues = self.take_awake(now);
        while let Some(name) = self.lapse_one(now) {
            self.metrics.tasks().reservation_lapsed();
            queues.push(name);
        }
        for set in [SetName::Scheduled, SetName::Retries] {
            while let Some(id) = self.due(set, now) {
                self.metrics.tasks().was_due(set);
                queues.push(self.requeue(id, now));
            }
        }
        while let Some(id) = self.due(SetName::Dead, now - self.limits.dead_age_max) {
            self.metrics.tasks().was_due(SetName::Dead);
            self.forget(id);
        }
        queues.extend(self.run_batches(now));
        while self.features.tracks.expire(now, self.limits.track_age_max).is_some() {}
        queues
    }

    fn due(&self, set: SetName, by: Timestamp) -> Option<JobId> {
        let first = self.set(set).first().filter(|(at, _)| *at <= by.as_micros());
        first.map(|(_, id)| *id)
    }

    /// Returns when the next work is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let first = |set| self.set(set).first().map(|(at, _)| Timestamp::from_micros(*at));
        let times = [
            self.expiry.first().map(|(at, _)| *at),
            first(SetName::Scheduled),
            first(SetName::Retries),
            first(SetName::Dead).map(|died| died + self.limits.dead_age_max),
            self.features.tracks.next_expiry(self.limits.track_age_max),
            self.features.batches.next_expiry(),
            self.sleeping.first().map(|(at, _)| *at),
        ];
        times.into_iter().flatten().min()
    }
}

impl MemoryJob {
    fn rests_in(&self, place: &JobLocation) -> bool {
        match (place, &self.rest) {
            (JobLocation::Queue(name), MemoryJobState::Waiting) => *name == self.queue,
            (JobLocation::Set(wanted), MemoryJobState::In(set)) => wanted == set,
            _ => false,
        }
    }
}
