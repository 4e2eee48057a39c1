//! Reservations in the log: those of jobs under a limit, which must not run twice at once.
//!
//! Such a job is handed out only after the record of its reservation is durable. After a restart it is
//! reserved again by the same worker, and counts until ACK, FAIL or the end of its lease. A reservation has a
//! kept record ([`super::kept`]) under the job's order in its queue: the job's own record ends it when it
//! is removed or moved, so ACK and FAIL need no record more. A job that waits again keeps its order, so an empty
//! record ends its reservation.

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::arena::JobIndex;
use super::core::{Engine, EngineError};
use super::fair_queue::RunningLane;
use super::head::RecordHead;
use super::kept_key::KeptKey;
use super::reservation_record::{LoggedReservation, reservation_key};
use super::reservations::EngineReservation;

/// What happened to the lease of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendOutcome {
    /// No such job is reserved.
    Unknown,
    InMemory,
    InLog,
}

impl<D: Disk> Engine<D> {
    /// Returns whether a job that was taken may run only with so many others: its queue or its tenant has a limit, or
    /// it holds a unique lock while it runs.
    pub(crate) fn is_limited(&self, job: JobIndex, lane: Option<RunningLane>) -> bool {
        let queue = self.state.queues.get(self.state.arena.get(job).queue);
        let is_tenant_limited = || {
            let fair = queue.fair.as_ref().zip(lane);
            fair.is_some_and(|(fair, lane)| fair.is_limited(lane))
        };
        let holds_lock = || {
            let lock = self.state.features.get(job).lock;
            lock.is_some_and(|lock| !lock.ends_at_start)
        };
        let has_concurrency = self.allocation.of(&queue.name).concurrency.is_some();
        has_concurrency || is_tenant_limited() || holds_lock()
    }

    /// Writes the record of a reservation.
    pub(crate) fn log_reservation(
        &mut self,
        reservation: &mut EngineReservation,
    ) -> Result<(), EngineError> {
        let key = reservation_key(self.state.arena.get(reservation.job).order);
        self.write_reservation(key, &LoggedReservation::of(reservation, reservation.expires_at))?;
        reservation.logged = Some(key);
        Ok(())
    }

    fn write_reservation(
        &mut self,
        key: KeptKey,
        recorded: &LoggedReservation<'_>,
    ) -> Result<(), EngineError> {
        let mut body = Vec::new();
        recorded.write(&mut body);
        self.keep(key, &body)
    }

    /// Extends a reservation until `until`; never shortens it.
    pub(crate) fn extend(
        &mut self,
        jid: &str,
        until: Timestamp,
    ) -> Result<ExtendOutcome, EngineError> {
        let Some(held) = self.state.reserved.get(jid) else { return Ok(ExtendOutcome::Unknown) };
        let logged = held.logged;
        if let Some(key) = logged
            && until > held.expires_at
        {
            let mut body = Vec::new();
            LoggedReservation::of(held, until).write(&mut body);
            self.keep(key, &body)?;
        }
        self.state.reserved.extend(jid, until);
        Ok(if logged.is_some() { ExtendOutcome::InLog } else { ExtendOutcome::InMemory })
    }

    /// Forgets the record of a reservation whose job was removed or moved.
    pub(crate) fn forget_logged(&mut self, ended: &EngineReservation) {
        if let Some(key) = ended.logged {
            self.forget_kept(key);
        }
    }

    /// Ends the record of a reservation whose job waits again.
    pub(crate) fn end_logged(&mut self, ended: &EngineReservation) {
        let Some(key) = ended.logged else { return };
        // Without this record, a restart reserves the job again until the end of the lease: too strict, but no limit is
        // exceeded.
        let _ = self.journal.note_with(&RecordHead::Kept { key }, &[], &self.state);
        self.forget_kept(key);
    }
}
