//! The overrides in force, when they end, and what all groups together may use.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use weir_base::clock::Clock;

use super::file::{KeptOverrides, OverridesFile};
use super::{OVERRIDE_MAX, Override};

/// What all groups together may use, and what is kept of run-time changes.
#[derive(Clone, Debug, Default)]
pub struct FleetLimits {
    /// Database connections of all processes together. None: unlimited.
    pub connections_max: Option<u32>,
    /// Keeps overrides across restarts. None: they are not kept.
    pub overrides_file: Option<PathBuf>,
    pub clock: Clock,
}

/// The overrides of all groups.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) connections_max: Option<u32>,
    clock: Clock,
    file: OverridesFile,
    pub(crate) kept: KeptOverrides,
    /// When they end, by the monotonic clock.
    pub(crate) ends_at: BTreeMap<String, Duration>,
    /// The same of the limits of threads.
    pub(crate) limits_end_at: BTreeMap<String, Duration>,
}

impl Overrides {
    pub(crate) fn open(limits: FleetLimits, now: Duration) -> Self {
        let FleetLimits { connections_max, overrides_file, clock } = limits;
        let (file, kept) = OverridesFile::open(overrides_file);
        let (ends_at, limits_end_at) = (BTreeMap::new(), BTreeMap::new());
        let mut overrides = Self { connections_max, clock, file, kept, ends_at, limits_end_at };
        let wall_clock = overrides.unix_seconds();
        let ends = |all: &BTreeMap<String, Override>| {
            let end = |(name, kept): (&String, &Override)| {
                (name.clone(), now + time_left(kept, wall_clock))
            };
            all.iter().map(end).collect()
        };
        overrides.ends_at = ends(&overrides.kept.overrides);
        overrides.limits_end_at = ends(&overrides.kept.limits);
        overrides
    }

    pub(crate) fn unix_seconds(&self) -> u64 {
        self.clock.now().as_millis() / 1_000
    }

    /// Stores the change, then applies it; if it cannot be stored, nothing changes.
    pub(crate) fn store(&mut self, change: impl FnOnce(&mut KeptOverrides)) -> Result<(), String> {
        let mut kept = self.kept.clone();
        change(&mut kept);
        if kept != self.kept {
            self.file.write(&kept)?;
            self.kept = kept;
        }
        Ok(())
    }

    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.ends_at.values().chain(self.limits_end_at.values()).min().copied()
    }
}

/// Returns for how long an override still holds. A clock that was set back does not prolong it.
pub(crate) fn time_left(kept: &Override, wall_clock: u64) -> Duration {
    let left = kept.until.saturating_sub(wall_clock);
    Duration::from_secs(left.min(kept.until.saturating_sub(kept.set_at))).min(OVERRIDE_MAX)
}
