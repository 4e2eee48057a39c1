//! What a look at an upstream is doing, for who watches.

use std::fmt;

use super::Upstream;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Bytes of `/versions` are read.
    Versions,
    /// Gems are brought up to date.
    Gems,
    /// `.gem` files are fetched.
    Files,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    pub upstream: String,
    pub phase: Phase,
    pub done: u64,
    /// None: it is not known.
    pub total: Option<u64>,
}

/// Who is told.
#[derive(Clone, Copy)]
pub struct Progress<'a>(pub &'a (dyn Fn(SyncProgress) + Send + Sync));

impl Progress<'static> {
    /// Nobody.
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
