//! The rules for a layout, and the outcome of checking them.

use serde::Serialize;

/// A rule that a layout must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// The sum of all pools leaves the reserved connections free.
    ConnectionsFit,
    /// Each queue is the first one of some process.
    EveryQueueFirst,
    /// Mail and the scheduler do not wait behind other queues.
    GuaranteedSlots,
    /// Queues with long jobs, or with processes of their own until now, share no process with others.
    /// Reported only if there are some.
    LongJobsApart,
    /// Exactly one process serves the scheduler.
    SchedulerOnce,
    /// Each process has at least as many connections as threads.
    PoolsCoverThreads,
    /// Each process has threads. Reported only if broken.
    ThreadsThere,
    /// Queues that were set aside come last. Reported only if there are some.
    SetAsideLast,
    /// The queues of a process all have weights, or none has. Reported only if broken.
    OneOrder,
    /// Each kind of process has a unique name. Reported only if broken.
    NamesDiffer,
    /// Every name given as a queue is a valid one. Reported only if broken.
    QueuesRead,
    /// The memory suffices for all processes.
    MemoryFits,
    /// The machine has enough cores for all threads.
    CoresEnough,
    /// No queue grows indefinitely.
    KeepsUp,
    /// Jobs wait no longer than their target.
    TargetsKept,
}

impl Claim {
    /// Returns a description.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::ConnectionsFit => "connection pools fit the database",
            Self::EveryQueueFirst => "each queue is first in a process",
            Self::GuaranteedSlots => "mail and the scheduler have threads of their own",
            Self::LongJobsApart => "long jobs hold no threads of other queues",
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

/// Whether a rule is satisfied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimOutcome {
    /// It is satisfied.
    Holds,
    /// It is not satisfied.
    Broken,
    /// Data for checking it is missing.
    Unknown,
}

impl ClaimOutcome {
    pub(super) const fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Broken }
    }

    /// Returns the outcome. A rule that is known to be broken is broken, even if other data is
    /// missing.
    pub(super) const fn told(is_broken: bool, is_unknown: bool) -> Self {
        match (is_broken, is_unknown) {
            (true, _) => Self::Broken,
            (false, true) => Self::Unknown,
            (false, false) => Self::Holds,
        }
    }
}

/// A rule with its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The rule.
    pub claim: Claim,
    /// Whether it is satisfied.
    pub outcome: ClaimOutcome,
    /// The figures behind the outcome: "185 of 185 connections, 15 in reserve".
    pub figures: String,
}

impl Proof {
    /// Reports whether the rule is known to be satisfied.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.outcome == ClaimOutcome::Holds
    }
}
