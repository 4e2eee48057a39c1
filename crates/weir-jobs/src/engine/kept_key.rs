//! The keys of kept records ([`super::kept`]).

use std::collections::HashMap;

use weir_log::RecordPosition;

/// What a kept record describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum KeptKind {
    /// The progress of a job; the key is a hash of its jid.
    Track,
    /// A batch; the key is its id.
    Batch,
    /// A cron job; the key is a hash of its name.
    Cron,
    /// The reservation of a job; the key is the job's order in its queue. Since version 4 of the log.
    Reservation,
}

impl KeptKind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Track => 1,
            Self::Batch => 2,
            Self::Cron => 3,
            Self::Reservation => 4,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Track),
            2 => Some(Self::Batch),
            3 => Some(Self::Cron),
            4 => Some(Self::Reservation),
            _ => None,
        }
    }
}

/// The key of a kept record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeptKey {
    pub(crate) kind: KeptKind,
    pub(crate) key: u64,
}

/// Where the newest record of each key is.
pub(crate) type KeptRecords = HashMap<KeptKey, RecordPosition>;
