//! Says which figures of a queue were configured or measured, and which are assumed.

use serde::Serialize;

/// The basis of a queue's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DemandSource {
    /// Arrival rate and job duration are known.
    All,
    /// The arrival rate is known, and an upper limit of the duration: in many samples no job was in
    /// progress.
    AtMost,
    /// The number of busy threads is known, but not the rate.
    Busy,
    /// Only the arrival rate is known; no job was in progress.
    Comes,
    /// Only the arrival rate is known; durations were measured while jobs were delayed, so they are
    /// assumed.
    HeldUp,
    /// Nothing is known; all figures are assumed.
    Nothing,
}

impl DemandSource {
    /// Reports whether the arrival rate is known.
    #[must_use]
    pub const fn knows_rate(self) -> bool {
        matches!(self, Self::All | Self::AtMost | Self::Comes | Self::HeldUp)
    }

    /// Reports whether the job duration is known.
    #[must_use]
    pub const fn knows_seconds(self) -> bool {
        matches!(self, Self::All | Self::AtMost)
    }

    /// Reports whether the duration is an upper limit.
    #[must_use]
    pub const fn is_most(self) -> bool {
        matches!(self, Self::AtMost)
    }

    /// Reports whether the number of busy threads is known.
    #[must_use]
    pub const fn knows_load(self) -> bool {
        matches!(self, Self::All | Self::AtMost | Self::Busy)
    }
}
