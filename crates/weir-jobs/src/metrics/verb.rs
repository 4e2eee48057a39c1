//! The protocol's verbs and the results of commands, as metric labels.

/// A verb of the Faktory protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaktoryVerb {
    /// Store one job.
    Push,
    /// Store many jobs.
    Pushb,
    /// Fetch one job.
    Fetch,
    /// Fetch many jobs.
    Fetchb,
    /// Acknowledge one job.
    Ack,
    /// Acknowledge many jobs.
    Ackb,
    /// Report one failed job.
    Fail,
    /// Report many failed jobs.
    Failb,
    /// A worker's heartbeat.
    Beat,
    /// Return the server's state.
    Info,
    /// Delete all jobs.
    Flush,
    /// Close the connection.
    End,
    /// Pause, resume or remove queues, or report their latency.
    Queue,
    /// Apply an action to the jobs of a set.
    Mutate,
    /// Report the progress of a job (Enterprise).
    Track,
    /// Manage groups of jobs (Enterprise).
    Batch,
    /// Any other word.
    Unknown,
}

impl FaktoryVerb {
    /// All verbs, in the order of their discriminants.
    pub const ALL: [Self; 17] = [
        Self::Push,
        Self::Pushb,
        Self::Fetch,
        Self::Fetchb,
        Self::Ack,
        Self::Ackb,
        Self::Fail,
        Self::Failb,
        Self::Beat,
        Self::Info,
        Self::Flush,
        Self::End,
        Self::Queue,
        Self::Mutate,
        Self::Track,
        Self::Batch,
        Self::Unknown,
    ];

    /// Parses the verb at the start of a line. Verbs are upper case.
    #[must_use]
    pub const fn parse(word: &[u8]) -> Self {
        match word {
            b"PUSH" => Self::Push,
            b"PUSHB" => Self::Pushb,
            b"FETCH" => Self::Fetch,
            b"FETCHB" => Self::Fetchb,
            b"ACK" => Self::Ack,
            b"ACKB" => Self::Ackb,
            b"FAIL" => Self::Fail,
            b"FAILB" => Self::Failb,
            b"BEAT" => Self::Beat,
            b"INFO" => Self::Info,
            b"FLUSH" => Self::Flush,
            b"END" => Self::End,
            b"QUEUE" => Self::Queue,
            b"MUTATE" => Self::Mutate,
            b"TRACK" => Self::Track,
            b"BATCH" => Self::Batch,
            _ => Self::Unknown,
        }
    }

    /// Returns the label in metrics: the verb itself.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Push => "PUSH",
            Self::Pushb => "PUSHB",
            Self::Fetch => "FETCH",
            Self::Fetchb => "FETCHB",
            Self::Ack => "ACK",
            Self::Ackb => "ACKB",
            Self::Fail => "FAIL",
            Self::Failb => "FAILB",
            Self::Beat => "BEAT",
            Self::Info => "INFO",
            Self::Flush => "FLUSH",
            Self::End => "END",
            Self::Queue => "QUEUE",
            Self::Mutate => "MUTATE",
            Self::Track => "TRACK",
            Self::Batch => "BATCH",
            Self::Unknown => "unknown",
        }
    }
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommandResult {
    /// The command succeeded.
    Ok,
    /// A FETCH or a FETCHB found no job.
    Empty,
    /// The reply was an error.
    Error,
}

impl CommandResult {
    /// All results, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Empty, Self::Error];

    /// Returns the label in metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Empty => "empty",
            Self::Error => "error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_parse_back_and_all_is_in_order() {
        for (index, verb) in FaktoryVerb::ALL.into_iter().enumerate() {
            assert_eq!(verb as usize, index);
            assert_eq!(FaktoryVerb::parse(verb.label().as_bytes()), verb);
        }
        for (index, result) in CommandResult::ALL.into_iter().enumerate() {
            assert_eq!(result as usize, index);
        }
    }

    #[test]
    fn verbs_are_upper_case() {
        assert_eq!(FaktoryVerb::parse(b"push"), FaktoryVerb::Unknown);
        assert_eq!(FaktoryVerb::parse(b""), FaktoryVerb::Unknown);
    }
}
