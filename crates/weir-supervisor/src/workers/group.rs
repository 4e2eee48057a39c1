//! All slots of one group: scaling, due actions, and the rolling restart. Pure.

use std::time::Duration;

use super::generation::{Action, Moment, Numbers, Times};
use super::rolling::{Rolling, RollingStep};
use super::slot::{CarriedSlot, CommandError, ExitOutcome, WorkerSlot};
use super::spec::PROCESSES_MAX;
use crate::carried::CarriedGroup;

/// The rules of a group; its processes are in [`Fleet`](super::Fleet).
#[derive(Debug)]
pub(crate) struct WorkerGroup {
    times: Times,
    pub(crate) slots: Vec<WorkerSlot>,
    /// The target number of workers.
    pub(crate) target: usize,
    /// While true, no worker is started.
    pub(crate) is_paused: bool,
    pub(crate) rolling: Option<Rolling>,
}

/// The result of [`WorkerGroup::run_due`].
#[derive(Debug, Default)]
pub(crate) struct GroupUpdate {
    pub(crate) actions: Vec<Action>,
    /// The outcome of the rolling restart, if it ended.
    pub(crate) rolled: Option<Result<(), String>>,
}

impl WorkerGroup {
    pub(crate) fn new(times: Times, processes: u32) -> Self {
        let target = usize::try_from(processes).unwrap_or(usize::MAX);
        let slots = (0..target).map(|_| WorkerSlot::new(times.clone())).collect();
        Self { times, slots, target, is_paused: false, rolling: None }
    }

    /// Restores a group of an earlier program with the current timeouts.
    pub(crate) fn resume(times: Times, carried: &CarriedGroup) -> Self {
        let slot = |slot: &CarriedSlot| WorkerSlot::resume(times.clone(), slot.clone());
        let slots = carried.slots.iter().map(slot).collect();
        let (target, rolling) = (carried.wanted, carried.rolling.clone());
        Self { times, slots, target, is_paused: carried.is_paused, rolling }
    }

    /// Returns whether nothing runs and nothing will be started.
    pub(crate) fn has_ended(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_empty() && !slot.is_wanted())
    }

    /// Returns the reason of a worker that was given up, if no worker runs.
    pub(crate) fn failure(&self) -> Option<&str> {
        let is_empty = self.slots.iter().all(WorkerSlot::is_empty);
        self.slots.iter().find_map(WorkerSlot::failure).filter(|_| is_empty)
    }

    pub(crate) fn wakes_at(&self, moment: Moment) -> Option<Duration> {
        let starts =
            self.slots.iter().filter_map(WorkerSlot::starts_at).filter(|_| !self.is_paused);
        let deadlines = self.slots.iter().filter_map(|slot| slot.wakes_at(moment));
        starts.chain(deadlines).min()
    }

    /// Performs what is due. At most `starts_left` processes are started; the others start later.
    pub(crate) fn run_due(
        &mut self,
        moment: Moment,
        numbers: &mut Numbers,
        starts_left: &mut usize,
    ) -> GroupUpdate {
        let mut update = GroupUpdate::default();
        for slot in &mut self.slots {
            update.actions.extend(slot.run_due(moment));
            let is_due = slot.starts_at().is_some_and(|at| at <= moment.now);
            if is_due && !self.is_paused && *starts_left > 0 {
                *starts_left -= 1;
                update.actions.push(slot.start_now(numbers, moment.now));
            }
        }
        while self.slots.len() > self.target && self.slots.last().is_some_and(WorkerSlot::is_empty)
        {
            self.slots.pop();
        }
        self.roll(moment.now, numbers, &mut update);
        update
    }

    fn roll(&mut self, now: Duration, numbers: &mut Numbers, update: &mut GroupUpdate) {
        let Some(rolling) = &mut self.rolling else { return };
        match rolling.step(&self.slots) {
            RollingStep::Wait => return,
            RollingStep::Replace(index) => match self.slots[index].replace(numbers, now) {
                Ok(action) => return update.actions.extend(action),
                Err(error) => update.rolled = Some(Err(format!("slot {index} {error}"))),
            },
            RollingStep::Done => update.rolled = Some(Ok(())),
        }
        self.rolling = None;
    }

    /// Records the end of a process. Returns an error text if that ends the rolling restart.
    pub(crate) fn ended(
        &mut self,
        index: usize,
        number: u64,
        reason: &str,
        now: Duration,
    ) -> (ExitOutcome, Option<String>) {
        self.record_exit(index, number, reason, |slot| slot.ended(number, reason, now))
    }

    /// Records that a process could not be started and a retry would fail too. Returns the same as
    /// [`WorkerGroup::ended`].
    pub(crate) fn record_start_failure(
        &mut self,
        index: usize,
        number: u64,
        reason: &str,
        now: Duration,
    ) -> (ExitOutcome, Option<String>) {
        self.record_exit(index, number, reason, |slot| {
            slot.record_start_failure(number, reason, now)
        })
    }

    fn record_exit(
        &mut self,
        index: usize,
        number: u64,
        reason: &str,
        end: impl FnOnce(&mut WorkerSlot) -> ExitOutcome,
    ) -> (ExitOutcome, Option<String>) {
        let Some(slot) = self.slots.get_mut(index) else { return (ExitOutcome::Left, None) };
        let is_voluntary = slot.exits_on_its_own(number);
        let outcome = end(slot);
        let is_concerned =
            self.rolling.as_ref().is_some_and(|rolling| rolling.active() == Some(index));
        let is_failure = match outcome {
            ExitOutcome::Left | ExitOutcome::SuccessorTakesOver => false,
            // Another process is about to replace it.
            ExitOutcome::Restarting { .. } => !is_voluntary,
            ExitOutcome::ReplacementFailed | ExitOutcome::GivenUp { .. } => true,
        };
        if !is_concerned || !is_failure {
            return (outcome, None);
        }
        self.rolling = None;
        (outcome, Some(format!("slot {index}: {reason}")))
    }

    /// Starts all slots, or one.
    pub(crate) fn start(
        &mut self,
        index: Option<usize>,
        now: Duration,
    ) -> Result<(), CommandError> {
        for slot in self.chosen(index)? {
            if slot.current.is_none() || !slot.is_wanted() {
                slot.start(now);
            }
        }
        Ok(())
    }

    /// Stops all slots, or one. This ends a rolling restart.
    pub(crate) fn stop(
        &mut self,
        index: Option<usize>,
        now: Duration,
    ) -> Result<(Vec<Action>, Option<String>), CommandError> {
        let actions = self.chosen(index)?.iter_mut().flat_map(|slot| slot.stop(now)).collect();
        let rolled = self.rolling.take().map(|_| "stopped on command".to_owned());
        Ok((actions, rolled))
    }

    /// Replaces one worker. Rejected during another replacement in the group.
    pub(crate) fn restart(
        &mut self,
        index: usize,
        numbers: &mut Numbers,
        now: Duration,
    ) -> Result<Option<Action>, CommandError> {
        self.ensure_not_busy()?;
        let slot = self.slots.get_mut(index).ok_or_else(|| no_slot(index))?;
        slot.replace(numbers, now).map_err(|error| format!("slot {index} {error}"))
    }

    /// Replaces all workers, one after the other.
    pub(crate) fn restart_rolling(&mut self) -> Result<(), CommandError> {
        self.ensure_not_busy()?;
        self.rolling = Some(Rolling::new(self.slots.len()));
        Ok(())
    }

    /// Scales the group to `processes` running workers: surplus ones get their stop signal, stopped
    /// ones are started.
    pub(crate) fn scale(
        &mut self,
        processes: u32,
        now: Duration,
    ) -> Result<Vec<Action>, CommandError> {
        if processes > PROCESSES_MAX {
            return Err(format!("{processes} are more than the {PROCESSES_MAX} of one group"));
        }
        if self.rolling.is_some() {
            return Err("a rolling restart is under way; wait for its end".into());
        }
        Ok(self.resize(processes, now))
    }

    /// Like [`WorkerGroup::scale`], also during other operations: a rolling restart continues with
    /// the remaining workers.
    pub(crate) fn resize(&mut self, processes: u32, now: Duration) -> Vec<Action> {
        self.target = usize::try_from(processes).unwrap_or(usize::MAX);
        let mut actions = Vec::new();
        for slot in self.slots.iter_mut().skip(self.target) {
            actions.extend(slot.stop(now));
        }
        // Slots whose worker is ending start again when it has ended.
        for slot in self.slots.iter_mut().take(self.target).filter(|slot| !slot.is_wanted()) {
            slot.start(now);
        }
        while self.slots.len() < self.target {
            self.slots.push(WorkerSlot::new(self.times.clone()));
        }
        actions
    }

    /// Retries failed slots at once with a reset restart history: the program may have changed.
    pub(crate) fn retry(&mut self, now: Duration) {
        for slot in self.slots.iter_mut().filter(|slot| slot.starts_at().is_some()) {
            slot.start(now);
        }
    }

    /// Pauses the group: nothing is started until it is resumed. Returns the error text of a
    /// rolling restart that this ends.
    pub(crate) fn pause(&mut self) -> Option<String> {
        self.is_paused = true;
        self.rolling.take().map(|_| "paused on command".to_owned())
    }

    fn ensure_not_busy(&self) -> Result<(), CommandError> {
        if self.is_paused {
            return Err("the group is paused; resume it first".into());
        }
        if self.rolling.is_some() {
            return Err("a rolling restart is under way".into());
        }
        match self.slots.iter().position(WorkerSlot::is_being_replaced) {
            Some(index) => Err(format!("slot {index} is being replaced; one at a time")),
            None => Ok(()),
        }
    }

    fn chosen(&mut self, index: Option<usize>) -> Result<&mut [WorkerSlot], CommandError> {
        let Some(index) = index else { return Ok(&mut self.slots) };
        let slot = self.slots.get_mut(index).ok_or_else(|| no_slot(index))?;
        Ok(std::slice::from_mut(slot))
    }
}

fn no_slot(index: usize) -> CommandError {
    format!("there is no slot {index}")
}

#[cfg(test)]
mod tests;
