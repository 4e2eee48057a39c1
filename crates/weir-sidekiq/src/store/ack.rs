//! Ends reservations of jobs that are done.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join_all;
use redis::{AsyncCommands as _, Pipeline};
use tokio::time::Instant;
use weir_jobs::metrics::StaleReport;
use weir_jobs::model::{QueueName, Wid};
use weir_jobs::store::StoreError;
use weir_jobs::tracks::TrackState;

use super::features::FeatureEvent;
use super::link_connection::LinkConnection;
use super::move_run::MovedText;
use super::moves::{MoveSource, MoveTarget};
use super::owner::LeaseOwner;
use super::store_core::StoreCore;
use super::stored::StoredText;

/// Jobs at the end of a queue among which a job that has returned is searched.
const TAIL_JOBS_MAX: isize = 1_000;

/// The indices of acknowledged jids.
#[derive(Debug, Default)]
struct ReportedJids {
    /// With the reservation of each.
    found: Vec<(usize, u64)>,
    /// Other workers have these jobs now.
    of_others: Vec<usize>,
    unknown: Vec<usize>,
}

impl StoreCore {
    /// Ends the reservations of `jids` that `reporter` has. Returns the indices of unknown ones.
    pub(super) async fn ack(
        self: &Rc<Self>,
        reporter: Option<&Wid>,
        jids: &[&str],
    ) -> Result<Vec<usize>, StoreError> {
        let mut connection = self.ready().await?;
        let ReportedJids { found, mut unknown, of_others } = self.reported_jids(reporter, jids);
        let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
        let lost = self.delete_reserved(&mut connection, &numbers).await?;
        of_others.iter().for_each(|_| self.metrics.stale_report(StaleReport::Ack));
        let mut not_found = of_others;
        for (place, number) in found {
            let ended = self.state.borrow_mut().reservations.remove(number);
            match ended {
                Some(_) if lost.contains(&number) => {
                    self.metrics.stale_report(StaleReport::Ack);
                    not_found.push(place);
                }
                Some(job) => {
                    self.observe_run(&job.queue, job.since);
                    self.record_class(&job, self.done_now(&job));
                    self.end_run(&job, None);
                    self.note_reserved(&job, TrackState::Success);
                    self.count(&job.queue, |totals| totals.processed += 1);
                }
                None if lost.contains(&number) => unknown.push(place),
                // The table was emptied meanwhile, but Redis still had the job.
                None => {}
            }
        }
        for place in unknown {
            if !self.ack_unknown(&mut connection, reporter, jids[place]).await? {
                not_found.push(place);
            }
        }
        not_found.sort_unstable();
        self.wake_waiting_fetches();
        Ok(not_found)
    }

    /// Acknowledges a job that is not in the table of this node. Returns whether there was one.
    async fn ack_unknown(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        reporter: Option<&Wid>,
        jid: &str,
    ) -> Result<bool, StoreError> {
        if self.state.borrow_mut().lost.remove(jid) {
            self.metrics.stale_report(StaleReport::Ack);
            return Ok(false);
        }
        self.ack_elsewhere(connection, reporter, jid).await
    }

    /// Finds the reservation of each jid. A jid that is given twice ends two reservations.
    fn reported_jids(&self, reporter: Option<&Wid>, jids: &[&str]) -> ReportedJids {
        let reservations = &self.state.borrow().reservations;
        let (mut reported, mut taken) = (ReportedJids::default(), BTreeSet::new());
        for (place, jid) in jids.iter().enumerate() {
            let is_left = |number: &u64| !taken.contains(number);
            if let Some(number) = reservations.reported(jid, reporter).find(is_left) {
                taken.insert(number);
                reported.found.push((place, number));
            } else if reservations.with_jid(jid).any(|number| is_left(&number)) {
                reported.of_others.push(place);
            } else {
                reported.unknown.push(place);
            }
        }
        reported
    }

    /// Deletes reserved jobs from Redis. Returns those that were not there any more: this node's lease
    /// was over and another node has returned them to their queue.
    async fn delete_reserved(
        &self,
        connection: &mut LinkConnection,
        numbers: &[u64],
    ) -> Result<BTreeSet<u64>, StoreError> {
        let Some(owner) = self.owner.borrow().clone() else {
            return Ok(numbers.iter().copied().collect());
        };
        let (mut sent, mut with_features) = (Vec::with_capacity(numbers.len()), Vec::new());
        let mut pipeline = Pipeline::new();
        for number in numbers {
            if let Some(job) = self.state.borrow().reservations.get(*number) {
                if let Some(tag) = self.tag(job.features.as_deref()) {
                    with_features.push((*number, job.queue.clone(), tag));
                    continue;
                }
                pipeline.hdel(self.keys.reserved(job.queue.as_str()), owner.field(*number));
                sent.push(*number);
            }
        }
        let mut missing = self.end_succeeded(connection, &owner, with_features).await?;
        if sent.is_empty() {
            return Ok(missing);
        }
        let asked = Instant::now();
        let deleted = pipeline.query_async(connection).await;
        let deleted: Vec<u64> = deleted.map_err(|error| self.link.failed(&error))?;
        if sent.len() == 1 {
            self.rounds.note_trip(asked.elapsed());
        }
        let gone = sent.into_iter().zip(deleted).filter(|(_, deleted)| *deleted == 0);
        missing.extend(gone.map(|(number, _)| number));
        Ok(missing)
    }

    /// Ends reserved jobs that have succeeded and have features, each with its tag. Returns those that were not there any
    /// more.
    async fn end_succeeded(
        &self,
        connection: &LinkConnection,
        owner: &LeaseOwner,
        jobs: Vec<(u64, QueueName, String)>,
    ) -> Result<BTreeSet<u64>, StoreError> {
        let ending = jobs.iter().map(|(number, queue, tag)| {
            let (mut connection, field) = (connection.clone(), owner.field(*number));
            async move {
                let by = FeatureEvent::Succeeded;
                self.end_field(&mut connection, queue.as_str(), &field, by, Some(tag)).await
            }
        });
        let mut missing = BTreeSet::new();
        for ((number, ..), ended) in jobs.iter().zip(join_all(ending).await) {
            if !ended? {
                missing.insert(*number);
            }
        }
        Ok(missing)
    }

    /// Acknowledges a job that this node has not reserved: one that has returned to its queue, or
    /// one that another node has reserved. Returns whether there was one.
    async fn ack_elsewhere(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        reporter: Option<&Wid>,
        jid: &str,
    ) -> Result<bool, StoreError> {
        let queue = self.state.borrow().returned.queue_of(jid).cloned();
        let ended = match queue {
            Some(queue) if self.remove_returned(connection, &queue, jid).await? => Some(queue),
            _ => self.delete_foreign(connection, reporter, jid).await?,
        };
        if let Some(queue) = &ended {
            self.count(queue, |totals| totals.processed += 1);
        }
        Ok(ended.is_some())
    }

    async fn remove_returned(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        jid: &str,
    ) -> Result<bool, StoreError> {
        // It may have been blocked since.
        for list in self.blocked_lists(queue).iter().chain([queue]) {
            if self.remove_from_tail(connection, list, jid).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn remove_from_tail(
        &self,
        connection: &mut LinkConnection,
        name: &QueueName,
        jid: &str,
    ) -> Result<bool, StoreError> {
        let list = self.keys.list(name.as_str());
        let tail = connection.lrange(&list, -TAIL_JOBS_MAX, -1).await;
        let tail: Vec<Vec<u8>> = tail.map_err(|error| self.link.failed(&error))?;
        let is_it = |(_, payload): &(usize, &Vec<u8>)| {
            StoredText::parse(payload, usize::MAX).is_ok_and(|text| text.jid == jid)
        };
        let Some((position, payload)) = tail.iter().rev().enumerate().find(is_it) else {
            return Ok(false);
        };
        if let Some(tag) = self.tag_of_payload(payload) {
            let tag = Some((FeatureEvent::Succeeded, tag));
            let text = MovedText { old: payload.clone(), position, tag, ..MovedText::default() };
            let source = MoveSource::List(name.clone());
            let shifted =
                self.shift(connection, &source, &MoveTarget::Nowhere, &[text], "").await?;
            return Ok(shifted.moved == 1);
        }
        let removed = connection.lrem(&list, -1, payload).await;
        let removed: u64 = removed.map_err(|error| self.link.failed(&error))?;
        if removed == 1 {
            self.note_stored(payload, TrackState::Success);
        }
        Ok(removed == 1)
    }
}
