//! The protocol's verbs and what can come of a command, as labels.

/// A verb of the Faktory protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaktoryVerb {
    /// Store one job.
    Push,
    /// Store many jobs.
    Pushb,
    /// Ask for a job.
    Fetch,
    /// Ask for many jobs.
    Fetchb,
    /// A job is done.
    Ack,
    /// Many jobs are done.
    Ackb,
    /// A job failed.
    Fail,
    /// Many jobs failed.
    Failb,
    /// A worker is alive.
    Beat,
    /// What is where.
    Info,
    /// Forget everything.
    Flush,
    /// Good-bye.
    End,
    /// Pause, resume, remove, latency.
    Queue,
    /// Act on the jobs of a set.
    Mutate,
    /// Progress of a job (Enterprise).
    Track,
    /// Groups of jobs (Enterprise).
    Batch,
    /// Anything else.
    Unknown,
}

impl FaktoryVerb {
    /// All, in the order of their discriminants.
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

    /// The verb that a line starts with. Verbs are upper case.
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

    /// The label in metrics: the verb itself.
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
    /// Done.
    Ok,
    /// A FETCH or a FETCHB that found nothing.
    Empty,
    /// Answered with an error.
    Error,
}

impl CommandResult {
    /// All, in the order of their discriminants.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Empty, Self::Error];

    /// The label in metrics.
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
