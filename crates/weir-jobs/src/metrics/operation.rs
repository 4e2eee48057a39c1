//! The operations of a store that are measured, and the commands of the server behind it.

/// An operation of a store, as a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreOperation {
    /// Store jobs: until they are as durable as the settings demand.
    Push,
    /// Reserve jobs, without the time for which a FETCH waits for one.
    Fetch,
    /// End reservations.
    Ack,
    /// End reservations with a failure.
    Fail,
    /// Return the jobs of a worker that is gone.
    Release,
    /// Move or delete jobs, or change queues.
    Act,
    /// Read a page of jobs.
    Scan,
    /// Find a job by its jid.
    Find,
    /// Read sizes and totals.
    Count,
}

impl StoreOperation {
    /// All operations, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Push,
        Self::Fetch,
        Self::Ack,
        Self::Fail,
        Self::Release,
        Self::Act,
        Self::Scan,
        Self::Find,
        Self::Count,
    ];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Fetch => "fetch",
            Self::Ack => "ack",
            Self::Fail => "fail",
            Self::Release => "release",
            Self::Act => "act",
            Self::Scan => "scan",
            Self::Find => "find",
            Self::Count => "count",
        }
    }
}

/// What a command of the server behind a store does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandKind {
    Read,
    Write,
    /// A script; the commands in it count as well, each by its own kind.
    Script,
    Other,
}

impl CommandKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Script, Self::Other];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Script => "script",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_in_the_order_of_their_discriminants() {
        for (index, operation) in StoreOperation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, index);
        }
        for (index, kind) in CommandKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }
}
