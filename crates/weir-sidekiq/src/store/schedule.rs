//! Moves what is due: scheduled jobs, retries, expired reservations, dead jobs that are too old.

use std::rc::Rc;

use weir_jobs::model::{FailureCause, SetName, WorkerEnd};
use weir_jobs::rules;
use weir_jobs::store::StoreError;

use super::entries::RawEntry;
use super::features::FeatureEvent;
use super::link_connection::LinkConnection;
use super::move_run::MovedText;
use super::moves::{MoveSource, MoveTarget};
use super::store_core::StoreCore;
use super::vanish::ignore_lost;

/// Due jobs that are moved in one step.
const STEP_JOBS: usize = 100;
/// No further job is read once a step has so many bytes.
const STEP_BYTES: usize = 4 << 20;

impl StoreCore {
    /// Does everything that is due by the clock, then serves FETCHes that wait.
    pub(super) async fn run_due(self: &Rc<Self>) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        // A key of another type stops nothing but what needs it.
        let expired = self.fail_expired(&mut connection).await;
        let batches = self.expire_batches(&mut connection).await;
        let scheduled = self.enqueue_due(&mut connection, SetName::Scheduled).await;
        let retries = self.enqueue_due(&mut connection, SetName::Retries).await;
        let trimmed = self.trim_dead(&mut connection, &self.token()?).await;
        let served = if self.waiting.is_empty() { Ok(()) } else { self.serve().await };
        // Where Redis is full, jobs go on and notes wait.
        drop(self.expire_tracks(&mut connection).await);
        expired.and(batches).and(scheduled).and(retries).and(trimmed).and(served)
    }

    /// Fails this node's jobs whose reservation has expired, and releases those whose worker was lost before.
    pub(super) async fn fail_expired(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        loop {
            let expired = {
                let state = self.state.borrow();
                let number = state.reservations.expired(self.now());
                let job = number.and_then(|number| state.reservations.get(number));
                number.zip(job.map(|job| {
                    let is_lost = state.lost_workers.has(job.wid.as_ref());
                    (job.jid.clone(), is_lost.then(|| job.queue.clone()))
                }))
            };
            let Some((number, (jid, queue_if_lost))) = expired else { return Ok(()) };
            if let Some(queue) = queue_if_lost {
                let held = vec![(number, jid, queue)];
                self.return_held(connection, held, WorkerEnd::Killed).await?;
                continue;
            }
            let report = rules::reservation_expired(jid);
            ignore_lost(self.fail_job(connection, number, report, FailureCause::Run).await)?;
        }
    }

    /// Moves the due jobs of a set to their queues. Other nodes and Sidekiq may do the same at the
    /// same time: the one that removes an entry pushes it.
    async fn enqueue_due(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
        set: SetName,
    ) -> Result<(), StoreError> {
        loop {
            let token = self.token()?;
            let mut invocation = self.scripts.due.key(self.set_key(set));
            invocation.arg(self.seconds_argument()).arg(STEP_JOBS).arg(STEP_BYTES);
            let reply = invocation.invoke_async(connection).await;
            let entries = RawEntry::with_scores(reply.map_err(|error| self.link.failed(&error))?);
            let found = entries.len();
            let bytes: usize = entries.iter().map(|entry| entry.payload.len()).sum();
            let mut stay = self.kill_malformed_entries(connection, set, &entries, &token).await?;
            let source = MoveSource::Set(set);
            let rejected = self.requeue(connection, &source, entries, None, &token).await?.rejected;
            stay += self.kill_rejected_entries(connection, set, rejected, &token).await?;
            let is_last_step = found < STEP_JOBS && bytes < STEP_BYTES;
            if is_last_step || stay == found {
                return Ok(());
            }
        }
    }

    /// Moves due payloads that are no jobs to the dead set, as they are. Returns how many stay.
    async fn kill_malformed_entries(
        &self,
        connection: &mut LinkConnection,
        set: SetName,
        entries: &[RawEntry],
        token: &str,
    ) -> Result<usize, StoreError> {
        let bytes_max = self.limits.line_bytes_max;
        let malformed = entries.iter().filter(|it| !it.is_job(bytes_max));
        let texts: Vec<_> = malformed.cloned().map(MovedText::unchanged).collect();
        let dead = MoveTarget::Dead(self.now());
        let shifted = self.shift(connection, &MoveSource::Set(set), &dead, &texts, token).await?;
        if shifted.moved > 0 {
            self.count_malformed(shifted.moved);
            tracing::warn!(
                jobs = shifted.moved,
                set = set.as_str(),
                "payloads in Redis are no jobs: moved to the dead set"
            );
        }
        Ok(shifted.rejected.len())
    }

    /// Moves due jobs whose queue's key is no list to the dead set, as they are. Returns how many
    /// stay.
    async fn kill_rejected_entries(
        &self,
        connection: &mut LinkConnection,
        set: SetName,
        rejected: Vec<Vec<u8>>,
        token: &str,
    ) -> Result<usize, StoreError> {
        let entries = rejected.into_iter().map(|payload| RawEntry::listed(payload, 0));
        let texts = entries.map(MovedText::unchanged).collect();
        let texts = self.tagged(texts, FeatureEvent::Failed);
        let dead = MoveTarget::Dead(self.now());
        let shifted = self.shift(connection, &MoveSource::Set(set), &dead, &texts, token).await?;
        if shifted.moved > 0 {
            tracing::warn!(
                jobs = shifted.moved,
                set = set.as_str(),
                "the keys of their queues in Redis are no lists: jobs moved to the dead set"
            );
        }
        Ok(shifted.rejected.len())
    }
}
