//! Moves what is due: scheduled jobs, retries, expired reservations, dead jobs that are too old.

use std::rc::Rc;

use weir_jobs::model::SetName;
use weir_jobs::rules;
use weir_jobs::store::StoreError;

use super::entries::RawEntry;
use super::link_connection::LinkConnection as MultiplexedConnection;
use super::moves::{MoveSource, MoveTarget};
use super::store_core::StoreCore;
use super::vanish::ignore_lost;

/// Due jobs that are moved in one step.
const STEP_JOBS: usize = 100;

impl StoreCore {
    /// Does everything that is due by the clock, then serves FETCHes that wait.
    pub(super) async fn run_due(self: &Rc<Self>) -> Result<(), StoreError> {
        let mut connection = self.ready().await?;
        self.fail_expired(&mut connection).await?;
        for set in [SetName::Scheduled, SetName::Retries] {
            self.enqueue_due(&mut connection, set).await?;
        }
        self.trim_dead(&mut connection).await?;
        if self.waiting.is_empty() { Ok(()) } else { self.serve().await }
    }

    /// Fails this node's jobs whose reservation has expired.
    pub(super) async fn fail_expired(
        self: &Rc<Self>,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        loop {
            let expired = {
                let state = self.state.borrow();
                let number = state.reservations.expired(self.now());
                let job = number.and_then(|number| state.reservations.get(number));
                number.zip(job.map(|job| job.jid.clone()))
            };
            let Some((number, jid)) = expired else { return Ok(()) };
            let report = rules::reservation_expired(jid);
            ignore_lost(self.fail_job(connection, number, report).await)?;
        }
    }

    /// Moves the due jobs of a set to their queues. Other nodes and Sidekiq may do the same at the
    /// same time: whoever removes an entry pushes it.
    async fn enqueue_due(
        self: &Rc<Self>,
        connection: &mut MultiplexedConnection,
        set: SetName,
    ) -> Result<(), StoreError> {
        loop {
            let mut invocation = self.scripts.due.key(self.set_key(set));
            invocation.arg(self.seconds_argument()).arg(STEP_JOBS);
            let reply = invocation.invoke_async(connection).await;
            let entries = RawEntry::with_scores(reply.map_err(|error| self.link.failed(&error))?);
            let found = entries.len();
            self.bury_malformed_entries(connection, set, &entries).await?;
            self.requeue(connection, &MoveSource::Set(set), entries).await?;
            if found < STEP_JOBS {
                return Ok(());
            }
        }
    }

    /// Moves due payloads that are no jobs to the dead set, as they are.
    async fn bury_malformed_entries(
        &self,
        connection: &mut MultiplexedConnection,
        set: SetName,
        entries: &[RawEntry],
    ) -> Result<(), StoreError> {
        let bytes_max = self.limits.line_bytes_max;
        let malformed = entries.iter().filter(|it| !it.is_job(bytes_max));
        let pairs: Vec<_> =
            malformed.map(|entry| (entry.payload.clone(), entry.payload.clone())).collect();
        if pairs.is_empty() {
            return Ok(());
        }
        self.state.borrow_mut().malformed += pairs.len() as u64;
        tracing::warn!(
            jobs = pairs.len(),
            set = set.as_str(),
            "payloads in Redis are no jobs: moved to the dead set"
        );
        let dead = MoveTarget::Dead(self.now());
        self.shift(connection, &MoveSource::Set(set), &dead, &pairs).await.map(drop)
    }
}
