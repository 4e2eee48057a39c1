//! Stores jobs: all of a batch, or none.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use weir_jobs::custom::{BatchId, UniqueRule};
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::{NewJob, QueueName, SetName};
use weir_jobs::store::{Restored, StoreError};
use weir_jobs::tracks::TrackState;

use super::link_connection::LinkConnection;
use super::push_call::{
    self, FeatureRequest, LockRequest, PlacedJob, PushCall, PushMode, PushReply,
};
use super::push_memory::PushMemory;
use super::store_core::StoreCore;
use super::unsupported::check_supported;

impl StoreCore {
    pub(super) async fn push(self: &Rc<Self>, jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
        let reply = self.push_as(jobs, PushMode::All).await?;
        let rejected =
            (0..jobs.len()).find_map(|place| self.rejection(place, &jobs[place], &reply));
        rejected.map_or(Ok(()), Err)
    }

    /// Stores the jobs that can be stored. Returns a result for each.
    pub(super) async fn push_each(
        self: &Rc<Self>,
        jobs: &[NewJob<'_>],
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let reply = self.push_as(jobs, PushMode::Each).await?;
        let results = jobs.iter().enumerate();
        let results =
            results.map(|(place, job)| self.rejection(place, job, &reply).map_or(Ok(()), Err));
        Ok(results.collect())
    }

    async fn push_as(
        self: &Rc<Self>,
        jobs: &[NewJob<'_>],
        mode: PushMode,
    ) -> Result<PushReply, StoreError> {
        let placed = jobs.iter().map(|job| (job, job.at.map(|at| (SetName::Scheduled, at))));
        let placed: Vec<_> = placed.collect();
        let requests = jobs.iter().enumerate();
        let requests: Vec<_> =
            requests.filter_map(|(place, job)| pushed_features(place, job)).collect();
        self.add(&placed, self.push_memory, &requests, mode).await
    }

    pub(super) async fn restore(self: &Rc<Self>, jobs: &[Restored<'_>]) -> Result<(), StoreError> {
        let placed = jobs.iter().map(|old| (&old.job, old.set.map(|set| (set, old.at))));
        let requests = jobs.iter().enumerate();
        let requests = requests.filter_map(|(place, old)| restored_features(place, old));
        let requests: Vec<FeatureRequest> = requests.collect();
        let placed: Vec<_> = placed.collect();
        self.add(&placed, PushMemory::OFF, &requests, PushMode::Import).await?;
        if jobs.iter().any(|old| old.set == Some(SetName::Dead)) {
            self.trim_dead(&mut self.ready().await?, "").await?;
        }
        Ok(())
    }

    async fn add(
        self: &Rc<Self>,
        jobs: &[PlacedJob<'_>],
        memory: PushMemory,
        requests: &[FeatureRequest],
        mode: PushMode,
    ) -> Result<PushReply, StoreError> {
        let mut connection = self.ready().await?;
        if jobs.is_empty() {
            return Ok(PushReply::default());
        }
        if !requests.is_empty() && mode != PushMode::Import && !self.keeps_features() {
            let jobs: Vec<NewJob<'_>> = jobs.iter().map(|(job, _)| **job).collect();
            check_supported(&jobs)?;
        }
        let names = jobs.iter().map(|(job, _)| job.queue).collect();
        self.make_room_for_queues(&mut connection, &names).await?;
        if self.is_split() {
            self.push_by_target(&connection, jobs, memory).await?;
            return Ok(PushReply::default());
        }
        let requests = if self.keeps_features() { requests } else { &[] };
        let call = PushCall::new(jobs, &self.keys, memory, || self.next_order());
        let (now, max) = (self.micros_argument(), self.limits.unique_locks_max);
        let call = call.with_features(requests, jobs, mode, &now, max, &self.keys);
        let reply = if self.confirmed.is_on() {
            self.push_confirmed(call).await?
        } else {
            self.push_unconfirmed(connection, jobs, &call).await?
        };
        self.count_rejected(&reply);
        let is_rejected = (0..jobs.len()).any(|place| reply.is_rejected(place));
        if mode == PushMode::Each || !is_rejected {
            self.count_pushed(jobs, &reply);
        }
        Ok(reply)
    }

    /// Returns why a job was not stored, if so.
    fn rejection(&self, place: usize, job: &NewJob<'_>, reply: &PushReply) -> Option<StoreError> {
        if reply.without_batch.contains(&place) {
            return Some(StoreError::NoSuchBatch(job.custom.batch.unwrap_or(BatchId::NONE)));
        }
        if reply.not_unique.contains(&place) {
            return Some(StoreError::NotUnique);
        }
        let max = self.limits.unique_locks_max;
        reply.without_room.contains(&place).then(|| StoreError::too_many_unique_jobs(max))
    }

    fn count_rejected(&self, reply: &PushReply) {
        reply.not_unique.iter().for_each(|_| self.metrics.not_unique());
        let without_room = reply.without_room.iter();
        without_room.for_each(|_| self.metrics.limit_hit(JobServerLimit::UniqueLocksMax));
    }

    async fn push_unconfirmed(
        self: &Rc<Self>,
        mut connection: LinkConnection,
        jobs: &[PlacedJob<'_>],
        call: &PushCall,
    ) -> Result<PushReply, StoreError> {
        let adding = async {
            let added = call.run(&self.scripts, &mut connection).await;
            added.map_err(|error| call.failed(&error, self.link.failed(&error)))
        };
        // The round's commands follow those of the push on the same connection, so a FETCH that
        // waits gets the job in the same round trip.
        let queues = jobs.iter().filter(|(_, set)| set.is_none()).map(|(job, _)| job.queue);
        if self.waiting.any_for(queues) {
            tokio::join!(adding, self.serve()).0
        } else {
            adding.await
        }
    }

    /// Stores jobs with one script for each queue and each set. If some can't be stored, the others may
    /// be, and the error says so.
    async fn push_by_target(
        self: &Rc<Self>,
        connection: &LinkConnection,
        jobs: &[PlacedJob<'_>],
        memory: PushMemory,
    ) -> Result<(), StoreError> {
        let parts = push_call::by_target(jobs);
        let calls = parts.iter().map(|part| {
            (part, PushCall::of_one_slot(part, &self.keys, memory, || self.next_order()))
        });
        let calls: Vec<_> = calls.collect();
        let queued = jobs.iter().filter(|(_, set)| set.is_none()).map(|(job, _)| job.queue);
        let queued: Vec<&str> = queued.collect::<BTreeSet<_>>().into_iter().collect();
        let pushing = calls.iter().map(|(part, call)| async move {
            self.push_unconfirmed(connection.clone(), part, call).await
        });
        let mut naming = connection.clone();
        let (named, outcomes) =
            tokio::join!(self.add_queues(&mut naming, &queued), join_all(pushing));
        let (mut stored, mut error) = (0, None);
        for ((part, _), outcome) in calls.iter().zip(outcomes) {
            match outcome {
                Ok(reply) => {
                    self.count_pushed(part, &reply);
                    stored += part.len();
                }
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        match error.or(named.err()) {
            None => Ok(()),
            Some(error) if stored == 0 => Err(error),
            Some(error) => Err(StoreError::Uncertain(format!(
                "{stored} of {} jobs are stored: {error}; {}",
                jobs.len(),
                memory.advice()
            ))),
        }
    }

    pub(super) fn count_pushed(&self, jobs: &[PlacedJob<'_>], reply: &PushReply) {
        if reply.is_memory_full {
            self.metrics.limit_hit(JobServerLimit::PushMemoryJobsMax);
        }
        self.metrics.repeated_pushes(reply.repeated.len() as u64);
        for (place, (job, set)) in jobs.iter().enumerate() {
            if reply.repeated.contains(&place) || reply.is_rejected(place) {
                continue;
            }
            if job.custom.tracked {
                self.note_track(job.jid, TrackState::Enqueued);
            }
            if let Ok(queue) = QueueName::parse(job.queue, &self.limits) {
                self.count(&queue, |totals| totals.pushed += 1);
                if set.is_none() {
                    self.count_traffic(&queue, |traffic| traffic.added += 1);
                }
            }
        }
    }

    pub(super) fn set_key(&self, set: SetName) -> String {
        self.keys.set(set)
    }

    /// Returns an error if new queues would exceed `queues_max`.
    pub(super) async fn make_room_for_queues(
        &self,
        connection: &mut LinkConnection,
        names: &BTreeSet<&str>,
    ) -> Result<(), StoreError> {
        if names.iter().all(|name| self.state.borrow().known.contains(*name)) {
            return Ok(());
        }
        let asked: Vec<&str> = names.iter().copied().collect();
        let (exist, queues) = self.are_queues(connection, &asked).await?;
        let max = self.limits.queues_max;
        let (new, known) = {
            let known = &self.state.borrow().known;
            let is_new = |(name, exists): &(&&str, &bool)| !**exists && !known.contains(**name);
            (asked.iter().zip(&exist).filter(is_new).count(), known.len())
        };
        // Queues of jobs in sets are not in Redis' set yet.
        if new > 0 && queues.max(known) + new > max {
            self.metrics.limit_hit(JobServerLimit::QueuesMax);
            let text = format!("too many queues: at most {max} (jobs.limits.advanced.queues_max)");
            return Err(StoreError::Limit(text));
        }
        let mut state = self.state.borrow_mut();
        if state.known.len() > max {
            state.known.clear();
        }
        state.known.extend(names.iter().map(|name| (*name).to_owned()));
        Ok(())
    }
}

/// Returns what a job that is pushed asks for.
pub(super) fn pushed_features(place: usize, job: &NewJob<'_>) -> Option<FeatureRequest> {
    let lock = job.custom.unique.map(|rule| {
        let UniqueRule { key, lasts, .. } = rule;
        LockRequest { key, from: job.at, lasts }
    });
    let batch = job.custom.batch;
    let is_plain = lock.is_none() && batch.is_none();
    (!is_plain).then_some(FeatureRequest { place, lock, batch, has_failed: false })
}

/// Returns what a job of an export asks for: its lock until the time in the export, or as if it was pushed now.
fn restored_features(place: usize, old: &Restored<'_>) -> Option<FeatureRequest> {
    let scheduled = old.set.filter(|set| *set == SetName::Scheduled).map(|_| old.at);
    let lock =
        old.job.custom.unique.and_then(|UniqueRule { key, lasts, .. }| match &old.features {
            None => Some(LockRequest { key, from: scheduled, lasts }),
            Some(features) => {
                let from = Some(features.lock_until?);
                Some(LockRequest { key, from, lasts: Duration::ZERO })
            }
        });
    let batch = old.job.custom.batch;
    let has_failed = old.features.is_some_and(|features| features.has_failed);
    let is_plain = lock.is_none() && batch.is_none();
    (!is_plain).then_some(FeatureRequest { place, lock, batch, has_failed })
}
