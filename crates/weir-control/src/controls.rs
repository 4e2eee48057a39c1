//! What can be changed, and what is in force.

use std::collections::BTreeMap;

use serde::Serialize;

/// All values that the rules may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Controls {
    /// Threads that may be busy at once; `None`: as many as the static plan has.
    pub threads: Option<u32>,
    /// Threads reserved for queues; `None`: the static plan's order.
    pub allocation: Option<Allocation>,
    /// The most jobs in progress, by class. A class without an entry has no limit.
    pub caps: BTreeMap<usize, u32>,
    /// What an operator has set by hand.
    pub overrides: Vec<Override>,
}

/// Threads reserved for queues. Those that are not reserved go to the queue that needs them most
/// ([`crate::allocation::rank`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Allocation {
    /// Threads reserved for each queue.
    pub guarantees: Vec<u32>,
    /// Queues that run their newest jobs first, with a share for the oldest.
    pub fresh: Vec<bool>,
}

/// A value that an operator has set, until it expires.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Override {
    /// What is set.
    pub target: OverrideTarget,
    /// When the rules may change it again.
    pub until_seconds: f64,
}

/// What an operator can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum OverrideTarget {
    /// The number of threads.
    Threads,
    /// The guarantees and the fresh lanes.
    Allocation,
    /// The limit of a class.
    Class(usize),
}

impl Controls {
    /// Returns whether an operator's value is in force.
    #[must_use]
    pub fn is_overridden(&self, target: OverrideTarget, now_seconds: f64) -> bool {
        self.overrides.iter().any(|it| it.target == target && it.until_seconds > now_seconds)
    }
}
