//! Jobs under a limit whose reservations are in memory only, because far fewer run than the limit allows.
//!
//! A record must be durable before the job is handed out, which costs a sync for each FETCH and each ACK. A quarter of a
//! limit goes without: a job gets no record while so few run. If the process is killed, a restart knows none of these
//! jobs, and some may still run, so for [`PRESUMED_LEASE`] it takes the limits for a quarter lower. A store that is
//! closed writes the missing records and then [`RecordHead::Closed`]: after that, nothing more is presumed.
//!
//! A limit that is lowered or set while jobs run counts those that have a record by then. A store that is closed records
//! all reservations, also of queues without limits: the next start may apply others, and restores those that count.

use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_log::{Disk, Lsn};

use super::arena::JobIndex;
use super::core::{Engine, EngineError};
use super::fair_queue::RunningLane;
use super::head::RecordHead;
use super::reservation_record::{LoggedReservation, reservation_key};
use super::reservations::EngineReservation;
use super::varint;
use crate::allocation::{Allocation, unrecorded_max};
use crate::model::QueueName;
use crate::settings::Fsync;

/// The longest lease of a reservation without a record: the default of `reserve_for`.
const PRESUMED_LEASE: Duration = Duration::from_secs(1_800);

/// When records are tried again that a full disk has no space for.
const RETRY: Duration = Duration::from_secs(1);

impl<D: Disk> Engine<D> {
    /// Presumes that jobs run which the log does not know, unless the store was closed.
    pub(crate) fn presume_running(&mut self, now: Timestamp) {
        let longest = now + PRESUMED_LEASE;
        self.presumed_until = if self.state.was_closed {
            self.state.presumed_until.filter(|until| *until > now).map(|until| until.min(longest))
        } else {
            Some(longest)
        };
        let Some(until) = self.presumed_until else { return };
        let rules = self.rules.clone();
        if rules != rules.with_presumed() {
            tracing::warn!(
                seconds = until.since(now).as_secs(),
                "the job store was not closed: concurrency limits are a quarter lower for a while, because jobs that the \
                 log does not know may still run"
            );
        }
        self.allocate(rules);
    }

    /// Applies the full limits again once the jobs have ended that may have run. Returns the queues of which more jobs may
    /// start.
    pub(crate) fn end_presumption(&mut self, now: Timestamp) -> Vec<u16> {
        if self.presumed_until.is_none_or(|until| now < until) {
            return Vec::new();
        }
        self.presumed_until = None;
        if self.rules == self.allocation {
            return Vec::new();
        }
        tracing::info!("concurrency limits apply in full again");
        self.allocate(self.rules.clone());
        // Jobs of any queue may use resources, whose lists of waiting queues begin anew.
        let may_start = |name: &QueueName| {
            self.rules.queues.contains_key(name) || !self.rules.resources.of.is_empty()
        };
        let queues = self.state.queues.iter().filter(|(_, queue)| may_start(&queue.name));
        queues.map(|(number, _)| number).collect()
    }

    /// Writes that a closed store is open, so that a crash is not mistaken for its end.
    pub(crate) fn note_opened(&mut self, is_new: bool) {
        if is_new || !self.state.was_closed {
            self.opened_at = Some(Lsn::default());
            return;
        }
        if !self.journal.log.is_current() {
            return;
        }
        // On a full disk, all reservations get a record.
        let is_noted = self.journal.note(&RecordHead::Opened, &self.state).is_ok();
        self.opened_at = is_noted.then(|| self.end());
    }

    /// Returns until when limits are lower than they are set.
    pub(crate) fn limits_lowered_until(&self) -> Option<Timestamp> {
        self.presumed_until.filter(|_| self.allocation != self.rules)
    }

    /// Returns the rules in force.
    pub(super) fn rules_in_force(&self) -> Allocation {
        if self.presumed_until.is_some() { self.rules.with_presumed() } else { self.rules.clone() }
    }

    /// Returns whether a job that was taken may run only if its reservation is in the log.
    pub(super) fn needs_record(&self, held: &EngineReservation) -> bool {
        self.is_limited(held.job, held.lane, held.uses)
            && (self.presumed_until.is_some()
                || !self.is_known_to_be_open()
                || self.outlasts_presumption(held.since, held.expires_at)
                || self.holds_lock(held.job)
                || self.state.resources.is_counted(held.uses)
                || !self.is_far_from_limits(held.job, held.lane))
    }

    /// Returns whether a restart after a crash knows that the store was open. With other settings than `fsync = "always"`,
    /// a record waits for no sync.
    fn is_known_to_be_open(&self) -> bool {
        let durable = self.journal.log.durable();
        self.settings.fsync == Fsync::Always && self.opened_at.is_some_and(|at| at <= durable)
    }

    fn is_far_from_limits(&self, job: JobIndex, lane: Option<RunningLane>) -> bool {
        let queue = self.state.queues.get(self.state.arena.get(job).queue);
        let concurrency = self.allocation.of(&queue.name).concurrency;
        let fair = queue.fair.as_ref().zip(lane);
        concurrency.is_none_or(|most| queue.reserved <= unrecorded_max(most))
            && fair.is_none_or(|(fair, lane)| fair.is_far_from_limit(lane))
    }

    /// Returns whether a reservation without a record may not last until `until`.
    pub(super) fn outlasts_presumption(&self, since: Timestamp, until: Timestamp) -> bool {
        until > since + PRESUMED_LEASE
    }

    /// Writes the records that could not be written when limits changed.
    pub(crate) fn record_due(&mut self, now: Timestamp) -> Result<(), EngineError> {
        if self.records_due.is_none_or(|at| now < at) {
            return Ok(());
        }
        match self.record_limited() {
            Err(EngineError::Store(error)) => {
                tracing::warn!(%error, "jobs in progress under a new limit are not in the log yet");
                self.records_due = Some(now + RETRY);
                Ok(())
            }
            recorded => {
                recorded?;
                self.records_due = None;
                Ok(())
            }
        }
    }

    /// Writes the missing records of reservations in queues with limits, when these change.
    pub(crate) fn record_limited(&mut self) -> Result<(), EngineError> {
        self.record(|engine, held| {
            let queue = engine.state.queues.get(engine.state.arena.get(held.job).queue);
            engine.allocation.of(&queue.name).limits_running()
                || engine.holds_lock(held.job)
                || engine.state.resources.is_counted(held.uses)
        })
    }

    /// Writes the missing records of some reservations.
    fn record(
        &mut self,
        is_meant: impl Fn(&Self, &EngineReservation) -> bool,
    ) -> Result<(), EngineError> {
        let held = self.state.reserved.iter();
        let held = held.filter(|held| held.logged.is_none() && is_meant(self, held));
        let missing: Vec<_> = held
            .map(|held| {
                let key = reservation_key(self.state.arena.get(held.job).order);
                let mut body = Vec::new();
                LoggedReservation::of(held, held.expires_at).write(&mut body);
                (held.jid.clone(), held.ticket, key, body)
            })
            .collect();
        for (jid, ticket, key, body) in missing {
            self.keep(key, &body)?;
            if let Some(reservation) = self.state.reserved.with_ticket(&jid, ticket) {
                reservation.logged = Some(key);
            }
        }
        Ok(())
    }

    /// Writes what a restart needs to know all reservations, because it may apply limits that do not hold yet, and until
    /// when other jobs are presumed to run.
    pub(crate) fn note_closed(&mut self) -> Result<(), EngineError> {
        self.record(|_, _| true)?;
        // A full disk may leave a segment of an older format at the end, with which an older version can go on.
        if !self.journal.log.is_current() {
            return Ok(());
        }
        let mut body = Vec::new();
        if let Some(until) = self.presumed_until {
            varint::put(&mut body, until.as_micros());
        }
        self.journal.note_with(&RecordHead::Closed, &body, &self.state)?;
        Ok(())
    }
}
