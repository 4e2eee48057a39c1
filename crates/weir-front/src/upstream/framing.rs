//! Where an answer's body ends (RFC 9112, section 6.3).

use bytes::Bytes;

use super::chunked::{BadChunk, ChunkedReader};

/// Where a body ends, and how far it is.
#[derive(Debug)]
pub(super) enum Framing {
    /// So many bytes are left.
    Length(u64),
    Chunked(ChunkedReader),
    /// Where the connection does.
    UntilClose,
}

impl Framing {
    pub(super) const EMPTY: Self = Self::Length(0);

    pub(super) const fn chunked() -> Self {
        Self::Chunked(ChunkedReader::new())
    }

    /// Whether the whole body was read.
    pub(super) fn is_at_end(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(reader) => reader.is_at_end(),
            Self::UntilClose => false,
        }
    }

    /// The next data in `bytes`, which loses what was read. What is behind the end stays.
    pub(super) fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Bytes>, BadChunk> {
        match self {
            _ if bytes.is_empty() => Ok(None),
            Self::Length(0) => Ok(None),
            Self::Length(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok(Some(bytes.split_to(taken)))
            }
            Self::Chunked(reader) => reader.next(bytes),
            Self::UntilClose => Ok(Some(std::mem::take(bytes))),
        }
    }
}
