//! What the rules return: a change, its explanation and its forecast.

use serde::Serialize;

use crate::controls::{Allocation, Controls, OverrideTarget};

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The number of threads that may be busy at once.
    Threads {
        /// In force.
        from: u32,
        /// From now on.
        to: u32,
    },
    /// The reserved threads.
    Allocation {
        /// In force; `None`: the static plan's order.
        from: Option<Allocation>,
        /// From now on.
        to: Option<Allocation>,
    },
    /// The order of a queue.
    FreshLane {
        /// The queue.
        queue: usize,
        /// Whether its newest jobs run first.
        on: bool,
    },
    /// The limit of a class.
    Cap {
        /// The class.
        class: usize,
        /// In force.
        from: Option<u32>,
        /// From now on; 0 pauses the class.
        to: Option<u32>,
    },
}

impl Change {
    /// Carries the change out.
    pub fn apply(&self, controls: &mut Controls) {
        match self {
            Self::Threads { to, .. } => controls.threads = Some(*to),
            Self::Allocation { to, .. } => controls.allocation.clone_from(to),
            Self::FreshLane { queue, on } => {
                let fresh = controls.allocation.as_mut().and_then(|it| it.fresh.get_mut(*queue));
                if let Some(fresh) = fresh {
                    *fresh = *on;
                }
            }
            Self::Cap { class, to: Some(to), .. } => {
                controls.caps.insert(*class, *to);
            }
            Self::Cap { class, to: None, .. } => {
                controls.caps.remove(class);
            }
        }
    }

    /// Returns the change that undoes this one.
    #[must_use]
    pub fn reversed(&self) -> Self {
        match self.clone() {
            Self::Threads { from, to } => Self::Threads { from: to, to: from },
            Self::Allocation { from, to } => Self::Allocation { from: to, to: from },
            Self::FreshLane { queue, on } => Self::FreshLane { queue, on: !on },
            Self::Cap { class, from, to } => Self::Cap { class, from: to, to: from },
        }
    }

    /// Returns what an operator can set by hand instead.
    #[must_use]
    pub fn target(&self) -> OverrideTarget {
        match self {
            Self::Threads { .. } => OverrideTarget::Threads,
            Self::Allocation { .. } | Self::FreshLane { .. } => OverrideTarget::Allocation,
            Self::Cap { class, .. } => OverrideTarget::Class(*class),
        }
    }
}

/// A change with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// When it was taken.
    pub at_seconds: f64,
    /// What changes.
    pub change: Change,
    /// Why, in one sentence.
    pub reason: String,
    /// What it is expected to do; `None` for a change that ends another one, which nothing is judged by.
    pub forecast: Option<Forecast>,
}

/// What a change is expected to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The value that changes.
    pub measure: Measure,
    /// Before the change.
    pub before: f64,
    /// After it.
    pub expected: f64,
    /// When the outcome is judged.
    pub within_seconds: f64,
}

/// A value that a forecast is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Work done, in sessions of an idle database.
    Goodput,
    /// Time of jobs in the database, in their normal time.
    Slowdown,
    /// The same without a class.
    SlowdownWithout(usize),
    /// Sessions that wait for a lock which the class holds.
    BlockedBy(usize),
    /// Jobs of the other classes that wait, in all queues.
    WaitingBeside(usize),
    /// Age of the oldest job of a queue, in seconds.
    QueueAge(usize),
}
