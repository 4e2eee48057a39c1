//! All slots of one group: scaling, due actions, and the rolling restart. Pure.

use std::time::Duration;

use super::connections::{ConnectionRoom, ReplacementOrder};
use super::generation::{Action, Generation, Moment, Numbers, Times};
use super::rolling::{Rolling, RollingStep};
use super::slot::{CarriedSlot, CommandError, ExitOutcome, WorkerSlot};
use super::spec::PROCESSES_MAX;
use super::values::LaunchValues;
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
    /// What new processes get.
    pub(crate) launch: LaunchValues,
    /// Whether a start waits for the end of other processes, because their connections are in use.
    pub(crate) lacks_connections: bool,
    /// A process ends before its successor starts, so that no more jobs run than its threads permit.
    pub(crate) has_one_process: bool,
}

/// The result of [`WorkerGroup::run_due`] and [`WorkerGroup::roll`].
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
        let (launch, lacks_connections) = (LaunchValues::default(), false);
        Self {
            times,
            slots,
            target,
            is_paused: false,
            rolling: None,
            launch,
            lacks_connections,
            has_one_process: false,
        }
    }

    /// Restores a group of an earlier program with the current timeouts.
    pub(crate) fn resume(times: Times, carried: &CarriedGroup) -> Self {
        let slot = |slot: &CarriedSlot| WorkerSlot::resume(times.clone(), slot.clone());
        let slots = carried.slots.iter().map(slot).collect();
        let (target, rolling) = (carried.wanted, carried.rolling.clone());
        let (launch, lacks_connections) = (LaunchValues::default(), false);
        let is_paused = carried.is_paused;
        Self {
            times,
            slots,
            target,
            is_paused,
            rolling,
            launch,
            lacks_connections,
            has_one_process: false,
        }
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
        // A start that waits for connections is tried after the end of a process.
        let may_start =
            |at: &Duration| !(self.is_paused || self.lacks_connections && *at <= moment.now);
        let starts = self.slots.iter().filter_map(WorkerSlot::starts_at).filter(may_start);
        let deadlines = self.slots.iter().filter_map(|slot| slot.wakes_at(moment));
        starts.chain(deadlines).min()
    }

    /// Starts the worker that was stopped for its successor, if that is due: before other starts,
    /// which would take its connections.
    pub(crate) fn start_replaced(
        &mut self,
        moment: Moment,
        numbers: &mut Numbers,
        starts_left: &mut usize,
        room: &mut ConnectionRoom,
    ) -> GroupUpdate {
        self.lacks_connections = false;
        let active = self.rolling.as_ref().and_then(Rolling::active);
        let mut update = GroupUpdate::default();
        if let Some(index) = active.filter(|index| *index < self.slots.len()) {
            // One that does not fit is counted with the others that wait.
            if room.fits(self.launch.connections) {
                let started = self.start_due(index, moment, numbers, starts_left, room);
                update.actions.extend(started);
            }
        }
        update
    }

    /// Performs what is due, except for the rolling restart. At most `starts_left` processes are
    /// started, as far as their connections fit; the others start later.
    pub(crate) fn run_due(
        &mut self,
        moment: Moment,
        numbers: &mut Numbers,
        starts_left: &mut usize,
        room: &mut ConnectionRoom,
    ) -> GroupUpdate {
        let mut update = GroupUpdate::default();
        for index in 0..self.slots.len() {
            update.actions.extend(self.slots[index].run_due(moment));
            let started = self.start_due(index, moment, numbers, starts_left, room);
            update.actions.extend(started);
        }
        while self.slots.len() > self.target && self.slots.last().is_some_and(WorkerSlot::is_empty)
        {
            self.slots.pop();
        }
        update
    }

    fn start_due(
        &mut self,
        index: usize,
        moment: Moment,
        numbers: &mut Numbers,
        starts_left: &mut usize,
        room: &mut ConnectionRoom,
    ) -> Option<Action> {
        let slot = &mut self.slots[index];
        let is_due = slot.starts_at().is_some_and(|at| at <= moment.now);
        if !is_due || self.is_paused || *starts_left == 0 {
            return None;
        }
        if !room.take(self.launch.connections) {
            self.lacks_connections = true;
            return None;
        }
        *starts_left -= 1;
        let started = slot.start_now(numbers, moment.now);
        slot.set_launch(&self.launch);
        Some(started)
    }

    /// Continues the rolling restart.
    pub(crate) fn roll(
        &mut self,
        now: Duration,
        numbers: &mut Numbers,
        room: &mut ConnectionRoom,
    ) -> GroupUpdate {
        let mut update = GroupUpdate::default();
        let Some(rolling) = self.rolling.as_mut().filter(|_| !self.is_paused) else {
            return update;
        };
        let new = self.launch.connections;
        let may_replace = |slot: &WorkerSlot| order(slot, new, room) != ReplacementOrder::Wait;
        if self.lacks_connections {
            rolling.pass_vacant(&self.slots);
        }
        match rolling.step(&self.slots, &self.launch, may_replace) {
            RollingStep::Wait => return update,
            RollingStep::Replace(index) => match self.replace(index, numbers, now, room) {
                Ok(action) => {
                    update.actions.extend(action);
                    return update;
                }
                Err(error) => update.rolled = Some(Err(error)),
            },
            RollingStep::Done => update.rolled = Some(Ok(())),
        }
        self.rolling = None;
        update
    }

    /// Replaces one worker: its successor is started beside it, or in its place if there are no
    /// connections for both.
    fn replace(
        &mut self,
        index: usize,
        numbers: &mut Numbers,
        now: Duration,
        room: &mut ConnectionRoom,
    ) -> Result<Option<Action>, CommandError> {
        let slot = self.slots.get_mut(index).ok_or_else(|| no_slot(index))?;
        let replaced = match order(slot, self.launch.connections, room) {
            ReplacementOrder::StartFirst if self.has_one_process => slot.replace_after_end(now),
            ReplacementOrder::StartFirst => slot.replace(numbers, now),
            ReplacementOrder::StopFirst => slot.replace_after_end(now),
            ReplacementOrder::Wait => Err("waits for connections (budget)".into()),
        };
        slot.set_launch(&self.launch);
        if let Ok(Some(Action::Start(_))) = replaced {
            room.take(self.launch.connections);
        }
        replaced.map_err(|error| format!("slot {index} {error}"))
    }

    /// Sets what new processes get, and begins to replace those that have other values. Returns
    /// whether there are any.
    pub(crate) fn set_launch(&mut self, launch: LaunchValues) -> bool {
        self.launch = launch;
        let is_outdated = self.slots.iter().any(|slot| slot.is_outdated(&self.launch));
        if is_outdated {
            self.rolling = Some(Rolling::of_outdated(self.rolling.as_ref()));
        }
        is_outdated
    }

    /// Returns the database connections of its processes.
    pub(crate) fn connections(&self) -> u64 {
        self.slots.iter().map(WorkerSlot::connections).sum()
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
        room: &mut ConnectionRoom,
    ) -> Result<Option<Action>, CommandError> {
        self.ensure_not_busy()?;
        // A slot beyond the target only waits for the end of its worker.
        if index >= self.target {
            return Err(no_slot(index));
        }
        self.replace(index, numbers, now, room)
    }

    /// Replaces all workers, one after the other.
    pub(crate) fn restart_rolling(&mut self) -> Result<(), CommandError> {
        self.ensure_not_busy()?;
        self.rolling = Some(Rolling::new(self.slots.len()));
        Ok(())
    }

    /// Checks that an operator may scale the group to `processes` workers now.
    pub(crate) fn check_scale(&self, processes: u32) -> Result<(), CommandError> {
        if processes > PROCESSES_MAX {
            return Err(format!("{processes} are more than the {PROCESSES_MAX} of one group"));
        }
        if self.rolling.is_some() {
            return Err("a rolling restart is under way; wait for its end".into());
        }
        Ok(())
    }

    /// Scales the group to `processes` running workers: surplus ones get their stop signal, stopped
    /// ones are started. A rolling restart continues with the remaining workers.
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

    pub(crate) fn ensure_not_busy(&self) -> Result<(), CommandError> {
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

fn order(slot: &WorkerSlot, new: u32, room: &ConnectionRoom) -> ReplacementOrder {
    let old = slot.current.as_ref().map_or(0, Generation::connections);
    room.order(old, new)
}

fn no_slot(index: usize) -> CommandError {
    format!("there is no slot {index}")
}

#[cfg(test)]
mod budget_tests;
#[cfg(test)]
mod tests;
