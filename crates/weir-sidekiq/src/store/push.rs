//! Stores jobs: all of a batch, or none.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join_all;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::model::{NewJob, QueueName, SetName};
use weir_jobs::store::{Restored, StoreError};

use super::link_connection::LinkConnection;
use super::push_call::{self, PlacedJob, PushCall, PushReply};
use super::push_memory::PushMemory;
use super::store_core::StoreCore;

impl StoreCore {
    pub(super) async fn push(self: &Rc<Self>, jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
        let placed = jobs.iter().map(|job| (job, job.at.map(|at| (SetName::Scheduled, at))));
        self.add(&placed.collect::<Vec<_>>(), self.push_memory).await
    }

    pub(super) async fn restore(self: &Rc<Self>, jobs: &[Restored<'_>]) -> Result<(), StoreError> {
        let placed = jobs.iter().map(|old| (&old.job, old.set.map(|set| (set, old.at))));
        self.add(&placed.collect::<Vec<_>>(), PushMemory::OFF).await?;
        if jobs.iter().any(|old| old.set == Some(SetName::Dead)) {
            self.trim_dead(&mut self.ready().await?, "").await?;
        }
        Ok(())
    }

    async fn add(
        self: &Rc<Self>,
        jobs: &[PlacedJob<'_>],
        memory: PushMemory,
    ) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        if jobs.is_empty() {
            return Ok(());
        }
        let names = jobs.iter().map(|(job, _)| job.queue).collect();
        self.make_room_for_queues(&mut connection, &names).await?;
        if self.is_split() {
            return self.push_by_target(&connection, jobs, memory).await;
        }
        let call = PushCall::new(jobs, &self.keys, memory, || self.next_order());
        let reply = if self.confirmed.is_on() {
            self.push_confirmed(call).await?
        } else {
            self.push_unconfirmed(connection, jobs, &call).await?
        };
        self.count_pushed(jobs, &reply);
        Ok(())
    }

    async fn push_unconfirmed(
        self: &Rc<Self>,
        mut connection: LinkConnection,
        jobs: &[PlacedJob<'_>],
        call: &PushCall,
    ) -> Result<PushReply, StoreError> {
        let adding = async {
            let added = call.run(&self.scripts.push, &mut connection).await;
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
            if reply.repeated.contains(&place) {
                continue;
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
