//! Progress of a synchronization, for display.

use std::fmt;

use super::Upstream;

/// Current step of a synchronization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading `/versions`; counts bytes.
    Versions,
    /// Updating gems; counts names.
    Gems,
    /// Fetching `.gem` files; counts files.
    Files,
}

/// Progress within a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    pub upstream: String,
    pub phase: Phase,
    pub done: u64,
    /// The total, or None if it is unknown.
    pub total: Option<u64>,
}

/// A callback that receives the progress.
#[derive(Clone, Copy)]
pub struct Progress<'a>(pub &'a (dyn Fn(SyncProgress) + Send + Sync));

impl Progress<'static> {
    /// A callback that ignores the progress.
    pub const NONE: Self = Self(&|_| {});
}

impl Progress<'_> {
    pub(super) fn report(self, upstream: &Upstream, phase: Phase, done: u64, total: Option<u64>) {
        (self.0)(SyncProgress { upstream: upstream.name.to_string(), phase, done, total });
    }
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Progress")
    }
}
