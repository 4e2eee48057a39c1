//! A rolling restart: one slot after the other. Pure.

use super::slot::WorkerSlot;

/// The progress of a rolling restart.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rolling {
    active: Option<usize>,
    next: usize,
    count: usize,
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
        Self { active: None, next: 0, count }
    }

    /// Returns the slot that is being replaced.
    pub(crate) fn active(&self) -> Option<usize> {
        self.active
    }

    /// Returns the number of finished slots.
    pub(crate) fn done(&self) -> usize {
        self.next - usize::from(self.active.is_some())
    }

    pub(crate) fn step(&mut self, slots: &[WorkerSlot]) -> RollingStep {
        let is_busy = self.active.and_then(|index| slots.get(index)).is_some_and(|slot| {
            // Also wait for the old process to end: its memory is still in use.
            !slot.is_settled()
        });
        if is_busy {
            return RollingStep::Wait;
        }
        self.active = None;
        while let Some(slot) = slots.get(self.next).filter(|_| self.next < self.count) {
            let index = self.next;
            self.next += 1;
            // Skip stopped slots.
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
}
