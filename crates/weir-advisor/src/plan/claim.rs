//! Rules that a layout must keep, and whether they are kept.

use serde::Serialize;

/// A rule that a layout must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// The sum of pools leaves the reserve.
    ConnectionsFit,
    /// Each queue stands first in some process.
    EveryQueueFirst,
    /// Mail and the scheduler are behind nobody.
    GuaranteedSlots,
    /// One process serves the scheduler.
    SchedulerOnce,
    /// No thread waits for a connection of its own process.
    PoolsCoverThreads,
    /// Each process can work at all. Only said where it can't.
    ThreadsThere,
    /// What was set aside waits behind all others. Only said where something was.
    SetAsideLast,
    /// The queues of a process all have a weight, or none has. Only said where that is not so.
    OneOrder,
    /// Each kind of process has another name. Only said where not.
    NamesDiffer,
    /// What is said to be a queue is one. Only said where not.
    QueuesRead,
    /// All processes have their memory.
    MemoryFits,
    /// The machine has cores for all threads.
    CoresEnough,
    /// No queue grows without end.
    KeepsUp,
    /// Jobs wait no longer than they may.
    TargetsKept,
}

impl Claim {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::ConnectionsFit => "connection pools fit the database",
            Self::EveryQueueFirst => "each queue is first in a process",
            Self::GuaranteedSlots => "mail and the scheduler have threads of their own",
            Self::SchedulerOnce => "one process serves the scheduler",
            Self::PoolsCoverThreads => "each thread has a connection in its pool",
            Self::ThreadsThere => "each process has threads and queues",
            Self::SetAsideLast => "backlogs that were set aside are last",
            Self::OneOrder => "each process has one queue order",
            Self::NamesDiffer => "process names are unique",
            Self::QueuesRead => "queues are written as for -q",
            Self::MemoryFits => "there is enough memory",
            Self::CoresEnough => "threads fit the cores",
            Self::KeepsUp => "each queue keeps up with arrivals",
            Self::TargetsKept => "19 of 20 jobs start within their target",
        }
    }
}

/// Whether a rule is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimOutcome {
    /// It is.
    Holds,
    /// It is not.
    Broken,
    /// What it takes to tell is not said.
    Unknown,
}

impl ClaimOutcome {
    pub(super) const fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Broken }
    }

    /// What is broken is so whatever is unknown beside it.
    pub(super) const fn told(is_broken: bool, is_unknown: bool) -> Self {
        match (is_broken, is_unknown) {
            (true, _) => Self::Broken,
            (false, true) => Self::Unknown,
            (false, false) => Self::Holds,
        }
    }
}

/// A rule, and whether it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The rule.
    pub claim: Claim,
    /// Whether it is kept.
    pub outcome: ClaimOutcome,
    /// What shows it: "185 of 185 connections, 15 in reserve".
    pub figures: String,
}

impl Proof {
    /// Whether the rule is kept, for sure.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.outcome == ClaimOutcome::Holds
    }
}
