//! Jobs that were reserved and not delivered return to their queues.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_jobs::model::QueueName;
use weir_jobs::rules;
use weir_jobs::store::StoreError;
use weir_jobs::tracks::TrackState;

use super::features::FreedLock;
use super::handover::GiveBack;
use super::link_connection::LinkConnection;
use super::settlement::Settlement;
use super::store_core::StoreCore;
use super::undelivered_job::UndeliveredJob;

/// The age at which a count of kills starts again.
pub(super) const COUNT_AGE_MAX: Duration = rules::KILLS_AGE_MAX;
/// Jobs that one script returns.
pub(super) const RETURNED_PER_SCRIPT_MAX: usize = 25;

/// A reserved job that returns to its queue.
#[derive(Clone, Debug)]
pub(super) struct ReturningJob<'a> {
    pub(super) number: u64,
    /// Its jid, if its return counts. Otherwise empty.
    pub(super) jid: &'a str,
    pub(super) lock: Option<FreedLock>,
}

/// The same, by its field.
#[derive(Clone, Debug)]
pub(super) struct ReturningField {
    pub(super) field: String,
    pub(super) jid: String,
    pub(super) lock: Option<FreedLock>,
}

impl GiveBack for StoreCore {
    /// Ends reservations at once. Their jobs return before the next operation, or when the store's
    /// task comes to it.
    fn give_back(&self, numbers: &[u64]) {
        let mut state = self.state.borrow_mut();
        for number in numbers {
            // A job that its worker has lost meanwhile is not this FETCH's any more.
            if let Some(reservation) = state.reservations.remove(*number) {
                state.note_reserved(&reservation, TrackState::Enqueued);
                let lock = reservation.features.and_then(|features| features.freed_lock());
                let queue = reservation.queue;
                state.undelivered.push(UndeliveredJob { queue, number: *number, lock });
            }
        }
        drop(state);
        self.work_arrived.notify_one();
    }
}

impl StoreCore {
    /// Returns the jobs that were given back to their queues.
    pub(super) async fn return_undelivered(
        &self,
        connection: &LinkConnection,
    ) -> Result<(), StoreError> {
        if self.state.borrow().undelivered.is_empty() && self.returning.try_lock().is_ok() {
            return Ok(());
        }
        let _guard = self.returning.lock().await;
        let undelivered = std::mem::take(&mut self.state.borrow_mut().undelivered);
        let mut queues: BTreeMap<QueueName, Vec<UndeliveredJob>> = BTreeMap::new();
        for job in undelivered {
            queues.entry(job.queue.clone()).or_default().push(job);
        }
        for (queue, jobs) in queues {
            let returning = jobs.iter().map(|UndeliveredJob { number, lock, .. }| ReturningJob {
                number: *number,
                jid: "",
                lock: lock.clone(),
            });
            let moved = self.put_back(&mut connection.clone(), &queue, returning.collect()).await;
            if let Err(error) = moved {
                self.state.borrow_mut().undelivered.extend(jobs);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Puts this node's reserved jobs back to where they are served next, the lowest number first.
    pub(super) async fn put_back(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        mut jobs: Vec<ReturningJob<'_>>,
    ) -> Result<(), StoreError> {
        let Some(owner) = self.owner.borrow().clone() else { return Ok(()) };
        jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.number));
        let fields = jobs.into_iter().map(|ReturningJob { number, jid, lock }| ReturningField {
            field: owner.field(number),
            jid: jid.to_owned(),
            lock,
        });
        let fields: Vec<_> = fields.collect();
        for step in fields.chunks(RETURNED_PER_SCRIPT_MAX) {
            let moved =
                self.return_fields(connection, queue.as_str(), Settlement::default(), step).await?;
            let moved = moved.into_iter().filter(|is_moved| *is_moved).count() as u64;
            self.count_traffic(queue, |traffic| traffic.added += moved);
        }
        Ok(())
    }

    /// Puts reserved jobs back, the last one to be served first. Returns which were moved.
    pub(super) async fn return_fields(
        &self,
        connection: &mut LinkConnection,
        queue: &str,
        by: Settlement<'_>,
        fields: &[ReturningField],
    ) -> Result<Vec<bool>, StoreError> {
        let has_locks = fields.iter().any(|field| field.lock.is_some()) && self.keeps_features();
        let script = self.scripts.give_back.of(has_locks);
        let mut invocation = script.key(self.keys.reserved(queue));
        let list = self.keys.list(queue);
        invocation.key(&list).key(self.lease_key(&list)).key(self.kills_key(queue));
        self.add_queues_key(&mut invocation);
        invocation.arg(queue).arg(by.victim).arg(by.token);
        invocation.arg(self.seconds_argument()).arg(COUNT_AGE_MAX.as_secs());
        if has_locks {
            invocation.key(&self.keys.features()[..]);
        }
        for ReturningField { field, jid, lock } in fields {
            invocation.arg(field).arg(jid);
            match lock.as_ref().filter(|_| has_locks) {
                Some(FreedLock { lock, jid, ends_at }) => {
                    invocation.arg(lock).arg(&**jid).arg(ends_at.as_micros());
                }
                None => {
                    let none: &[&str] = if has_locks { &["", "", ""] } else { &[] };
                    invocation.arg(none);
                }
            }
        }
        let moved: Result<Vec<u8>, _> = invocation.invoke_async(connection).await;
        let moved = moved.map_err(|error| self.link.failed(&error))?;
        if moved.contains(&1) {
            self.add_queues(connection, &[queue]).await?;
        }
        Ok(moved.into_iter().map(|moved| moved == 1).collect())
    }
}
