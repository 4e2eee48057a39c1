//! Work that is due at a time: scheduled jobs and retries, expired reservations, dead jobs past
//! their maximum age, and upkeep of the log. Exact: the caller sleeps until [`NextCall::At`].

use weir_base::clock::Timestamp;
use weir_log::Disk;

use super::core::{Engine, EngineError};
use super::moves::CLEARED_SLICE_JOBS;
use crate::model::SetName;

/// Number of jobs handled before other work continues.
const SLICE_JOBS: usize = 256;

/// When to call [`Engine::tick`] again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextCall {
    /// At once, after yielding to other tasks: more work is due.
    Now,
    At(Timestamp),
    /// When something changes.
    Idle,
}

/// The result of a tick.
#[derive(Debug)]
pub(crate) struct Ticked {
    pub(crate) next: NextCall,
    /// Queues with new jobs or a free slot, in the order in which they got them.
    pub(crate) queues: Vec<u16>,
}

impl<D: Disk> Engine<D> {
    /// Handles up to one slice of the work that is due.
    ///
    /// # Errors
    /// The next call returns the queues of this one as well.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Result<Ticked, EngineError> {
        let mut queues = std::mem::take(&mut self.woken);
        match self.tick_slice(&mut queues, now) {
            Ok(next) => Ok(Ticked { next, queues }),
            Err(error) => {
                queues.append(&mut self.woken);
                self.woken = queues;
                Err(error)
            }
        }
    }

    fn tick_slice(
        &mut self,
        queues: &mut Vec<u16>,
        now: Timestamp,
    ) -> Result<NextCall, EngineError> {
        queues.extend(self.take_awake(now, SLICE_JOBS));
        queues.extend(self.end_presumption(now));
        let moved = self.move_due(queues, now);
        let upkeep = self.run_upkeep(queues, now);
        match (moved, upkeep) {
            // It may free the space that a full disk has not for the jobs that are due.
            (Err(EngineError::Store(_)), Ok(NextCall::Now)) | (Ok(NextCall::Now), Ok(_)) => {
                Ok(NextCall::Now)
            }
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(_), Ok(next)) => Ok(next),
        }
    }

    /// Ends the reservations that have expired, and moves the jobs that are due.
    fn move_due(&mut self, queues: &mut Vec<u16>, now: Timestamp) -> Result<NextCall, EngineError> {
        let mut left = SLICE_JOBS;
        while left > 0
            && let Some(queue) = self.lapse_one(now)?
        {
            self.metrics.tasks().reservation_lapsed();
            queues.push(queue);
            left -= 1;
        }
        for set in [SetName::Scheduled, SetName::Retries] {
            while left > 0 && self.due(set, now.as_micros()) {
                let Some((_, job)) = self.state.set(set).first().copied() else {
                    break;
                };
                queues.extend(self.requeue_due(job, now)?);
                self.metrics.tasks().was_due(set);
                left -= 1;
            }
        }
        let too_old = (now - self.settings.limits.dead_age_max).as_micros();
        while left > 0 && self.due(SetName::Dead, too_old) {
            let Some((_, job)) = self.state.set(SetName::Dead).first().copied() else {
                break;
            };
            self.discard(job)?;
            self.metrics.tasks().was_due(SetName::Dead);
            left -= 1;
        }
        Ok(if left == 0 { NextCall::Now } else { NextCall::Idle })
    }

    /// Does one slice of the work that waits for no time. An error of one part does not keep the others from their
    /// work.
    fn run_upkeep(
        &mut self,
        queues: &mut Vec<u16>,
        now: Timestamp,
    ) -> Result<NextCall, EngineError> {
        let forgotten = self.forget_cleared(CLEARED_SLICE_JOBS);
        self.expire_tracks(SLICE_JOBS, now);
        let recorded = self.record_due(now);
        let batches = self.run_batches_due(now);
        queues.extend(self.relane_slice());
        self.size_slice();
        queues.append(&mut self.woken);
        let reclaimed = self.reclaim_slice();
        forgotten.and(recorded).and(batches)?;
        let has_more = reclaimed? || !self.state.cleared.is_empty();
        Ok(if has_more { NextCall::Now } else { self.next_time() })
    }

    fn due(&self, set: SetName, micros: u64) -> bool {
        self.state.set(set).first().is_some_and(|(at, _)| *at <= micros)
    }

    /// Returns when the next work is due.
    pub(crate) fn next_time(&self) -> NextCall {
        let is_relaning = !self.relaning.is_empty() || !self.sizing.is_empty();
        if self.reclaim_due()
            || !self.state.cleared.is_empty()
            || !self.woken.is_empty()
            || self.state.resources.are_awaited(self.state.reserved.used.freed())
            || is_relaning
        {
            return NextCall::Now;
        }
        let first = |set| self.state.set(set).first().map(|(at, _)| Timestamp::from_micros(*at));
        let dead_age = self.settings.limits.dead_age_max;
        let times = [
            self.state.reserved.next_expiry(),
            first(SetName::Scheduled),
            first(SetName::Retries),
            first(SetName::Dead).map(|died| died + dead_age),
            self.state.features.tracks.next_expiry(self.settings.limits.track_age_max),
            self.next_batch_time(),
            self.state.sleeping.first().map(|(at, _)| *at),
            self.presumed_until,
            self.records_due,
        ];
        times.into_iter().flatten().min().map_or(NextCall::Idle, NextCall::At)
    }
}
