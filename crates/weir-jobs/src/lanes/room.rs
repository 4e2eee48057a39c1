//! Which slots a tenant above its share may take.

use super::levels::LEVEL_MAX;

/// The workers of a queue at one time. A slot is a worker's capacity for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Jobs in progress and free slots.
    pub slots: u32,
    /// Slots without a job, including the one to be given.
    pub free: u32,
    /// Free slots that only tenants with less than their share may take.
    pub headroom: u32,
}

impl Room {
    /// Every tenant may take every slot.
    pub const UNLIMITED: Self = Self { slots: 0, free: u32::MAX, headroom: 0 };

    /// Returns the levels that may be served: those below this. A tenant's share is its part of all slots by
    /// weight, among the tenants with jobs and one more that may come; at least one job per weight.
    pub(super) fn levels_open(self, weight_busy: u64) -> u32 {
        if self.free > self.headroom {
            return LEVEL_MAX + 1;
        }
        let share = u64::from(self.slots) / (weight_busy + 1);
        u32::try_from(share).unwrap_or(LEVEL_MAX).clamp(1, LEVEL_MAX)
    }
}
