//! What happens when, in order of time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A time in seconds since the beginning, with a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Moment(pub(super) f64);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// An event of the scenario begins.
    EventBegins(usize),
    /// An event of the scenario ends.
    EventEnds(usize),
    /// A job of a class arrives. The number tells whether its rate has changed since.
    Arrival { class: usize, generation: u32 },
    /// A failed job is due again.
    Retry { class: usize, id: u32, attempt: u32 },
    /// A job has waited for other systems.
    OutsideEnds(u32),
    /// A job ends its transaction.
    TransactionEnds(u32),
    /// A job has waited for a connection of the pool for as long as it may. The serial tells whether it still waits.
    PoolTimeout { job: u32, serial: u32 },
    /// Processes of a group have started.
    ProcessesReady { group: usize, processes: u32 },
    /// The policy is asked.
    Policy,
    /// The state is judged.
    Watch,
    /// A point of the charts.
    Point,
}

/// The steps to come. Steps at the same time happen in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    steps: BinaryHeap<Reverse<(Moment, u64, Step)>>,
    added: u64,
}

impl Calendar {
    pub(super) fn add(&mut self, at: f64, step: Step) {
        self.added += 1;
        self.steps.push(Reverse((Moment(at), self.added, step)));
    }

    pub(super) fn next(&self) -> Option<f64> {
        self.steps.peek().map(|Reverse((Moment(at), _, _))| *at)
    }

    pub(super) fn pop(&mut self) -> Option<Step> {
        self.steps.pop().map(|Reverse((_, _, step))| step)
    }
}
