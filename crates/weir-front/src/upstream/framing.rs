//! Where a response's body ends (RFC 9112, section 6.3).

use bytes::{Buf, Bytes};
use weir_net::chunks::{BadChunk, Chunks};

/// The framing of a body and the progress within it.
#[derive(Debug)]
pub(super) enum Framing {
    /// This many bytes are left.
    Length(u64),
    Chunked(Chunks),
    /// The body ends with the connection.
    UntilClose,
}

impl Framing {
    pub(super) const EMPTY: Self = Self::Length(0);

    /// Returns whether the whole body was read.
    pub(super) fn is_at_end(&self) -> bool {
        match self {
            Self::Length(remaining) => *remaining == 0,
            Self::Chunked(chunks) => chunks.is_at_end(),
            Self::UntilClose => false,
        }
    }

    /// Takes the next data from `bytes`. Bytes behind the end of the body are left.
    pub(super) fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Bytes>, BadChunk> {
        match self {
            _ if bytes.is_empty() => Ok(None),
            Self::Length(0) => Ok(None),
            Self::Length(remaining) => {
                let taken = bytes.len().min(usize::try_from(*remaining).unwrap_or(usize::MAX));
                *remaining -= taken as u64;
                Ok(Some(bytes.split_to(taken)))
            }
            Self::Chunked(chunks) => {
                let piece = chunks.next(bytes)?;
                bytes.advance(piece.framing);
                Ok((piece.data > 0).then(|| bytes.split_to(piece.data)))
            }
            Self::UntilClose => Ok(Some(std::mem::take(bytes))),
        }
    }
}
