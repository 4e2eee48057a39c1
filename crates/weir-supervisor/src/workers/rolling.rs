//! A rolling restart: slot after slot, never two at once. Pure.

use super::slot::WorkerSlot;

/// How far a rolling restart has come.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rolling {
    active: Option<usize>,
    next: usize,
    count: usize,
}

/// What a rolling restart needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RollingStep {
    Wait,
    Replace(usize),
    Done,
}

impl Rolling {
    pub(crate) fn over(count: usize) -> Self {
        Self { active: None, next: 0, count }
    }

    /// The slot that is being replaced.
    pub(crate) fn active(&self) -> Option<usize> {
        self.active
    }

    /// How many slots are done.
    pub(crate) fn done(&self) -> usize {
        self.next - usize::from(self.active.is_some())
    }

    pub(crate) fn step(&mut self, slots: &[WorkerSlot]) -> RollingStep {
        let is_busy = self.active.and_then(|index| slots.get(index)).is_some_and(|slot| {
            // Also until the one before it has ended: its memory is still taken.
            !slot.is_settled()
        });
        if is_busy {
            return RollingStep::Wait;
        }
        self.active = None;
        while let Some(slot) = slots.get(self.next).filter(|_| self.next < self.count) {
            let index = self.next;
            self.next += 1;
            // What was stopped stays so.
            if slot.is_wanted() {
                self.active = Some(index);
                // One that ends already needs no successor: the next one is started once it has.
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
