//! What of a queue's figures rests on something, and what is assumed.

use serde::Serialize;

/// What somebody has said or seen of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DemandSource {
    /// What comes, and what each takes.
    All,
    /// What comes, and what each takes at most: in many looks none of its jobs was in hand.
    AtMost,
    /// How many threads are busy, by its jobs in hand; not with how many jobs in a second.
    Busy,
    /// What comes; no job of it was in hand.
    Comes,
    /// What comes; what each takes was seen while something held all jobs up, and is assumed.
    HeldUp,
    /// Nothing: its figures are assumed.
    Nothing,
}

impl DemandSource {
    /// What comes.
    #[must_use]
    pub const fn knows_rate(self) -> bool {
        matches!(self, Self::All | Self::AtMost | Self::Comes | Self::HeldUp)
    }

    /// What each takes.
    #[must_use]
    pub const fn knows_seconds(self) -> bool {
        matches!(self, Self::All | Self::AtMost)
    }

    /// Whether what each takes is the most that it can be.
    #[must_use]
    pub const fn is_most(self) -> bool {
        matches!(self, Self::AtMost)
    }

    /// How many threads it keeps busy.
    #[must_use]
    pub const fn knows_load(self) -> bool {
        matches!(self, Self::All | Self::AtMost | Self::Busy)
    }
}
