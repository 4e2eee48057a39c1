//! A rolling restart: one slot after the other, of all workers or of those with other values than now.
//! Pure.

use super::slot::WorkerSlot;
use super::values::LaunchValues;

/// The progress of a rolling restart.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rolling {
    active: Option<usize>,
    /// Of all workers: the next slot. Otherwise: the number of slots that were replaced.
    next: usize,
    count: usize,
    /// Whether only workers are replaced that were started with other values.
    #[serde(default)]
    of_outdated: bool,
}

/// The next step of a rolling restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RollingStep {
    Wait,
    Replace(usize),
    Done,
}

impl Rolling {
    pub(crate) fn new(count: usize) -> Self {
        Self { active: None, next: 0, count, of_outdated: false }
    }

    /// Replaces the workers that were started with other values. A replacement in progress is
    /// continued.
    pub(crate) fn of_outdated(before: Option<&Self>) -> Self {
        let active = before.and_then(Self::active);
        Self { active, next: usize::from(active.is_some()), count: 0, of_outdated: true }
    }

    /// Returns whether it replaces only workers that were started with other values.
    pub(crate) fn is_of_outdated(&self) -> bool {
        self.of_outdated
    }

    /// Returns the slot that is being replaced.
    pub(crate) fn active(&self) -> Option<usize> {
        self.active
    }

    /// Returns the number of finished slots.
    pub(crate) fn done(&self) -> usize {
        self.next - usize::from(self.active.is_some())
    }

    /// Goes on past a worker that was stopped and whose successor waits for connections: the next
    /// ones may have more of them than they need.
    pub(crate) fn pass_vacant(&mut self, slots: &[WorkerSlot]) {
        let active = self.active.and_then(|index| slots.get(index));
        if active.is_some_and(|slot| slot.is_empty()) {
            self.active = None;
        }
    }

    /// Returns the next step. `may_replace`: whether there is room for a successor now.
    pub(crate) fn step(
        &mut self,
        slots: &[WorkerSlot],
        launch: &LaunchValues,
        may_replace: impl Fn(&WorkerSlot) -> bool,
    ) -> RollingStep {
        let is_busy = self.active.and_then(|index| slots.get(index)).is_some_and(|slot| {
            // Also wait for the old process to end: its memory is still in use.
            !slot.is_settled()
        });
        if is_busy {
            return RollingStep::Wait;
        }
        self.active = None;
        match self.of_outdated {
            true => self.next_outdated(slots, launch, may_replace),
            false => self.next_of_all(slots, may_replace),
        }
    }

    fn next_of_all(
        &mut self,
        slots: &[WorkerSlot],
        may_replace: impl Fn(&WorkerSlot) -> bool,
    ) -> RollingStep {
        while let Some(slot) = slots.get(self.next).filter(|_| self.next < self.count) {
            let index = self.next;
            // Skip stopped slots.
            if slot.is_wanted() && !slot.is_ending() && !may_replace(slot) {
                return RollingStep::Wait;
            }
            self.next += 1;
            if slot.is_wanted() {
                self.active = Some(index);
                // A worker that is ending needs no successor: the next one starts when it has
                // ended.
                return if slot.is_ending() {
                    RollingStep::Wait
                } else {
                    RollingStep::Replace(index)
                };
            }
        }
        RollingStep::Done
    }

    /// The first one for which there is room: a later one that needs fewer connections than before
    /// may make room for the others.
    fn next_outdated(
        &mut self,
        slots: &[WorkerSlot],
        launch: &LaunchValues,
        may_replace: impl Fn(&WorkerSlot) -> bool,
    ) -> RollingStep {
        let outdated = slots.iter().enumerate().filter(|(_, slot)| slot.is_outdated(launch));
        let mut outdated = outdated.peekable();
        if outdated.peek().is_none() {
            return RollingStep::Done;
        }
        let is_free = |slot: &WorkerSlot| !slot.is_ending() && !slot.is_being_replaced();
        match outdated.find(|(_, slot)| is_free(slot) && may_replace(slot)) {
            Some((index, _)) => {
                self.next += 1;
                self.active = Some(index);
                RollingStep::Replace(index)
            }
            None => RollingStep::Wait,
        }
    }
}
