//! `/versions` and `/names`, which a store keeps in pieces.

use crate::index::digest::Digests;
use crate::index::text::Text;
use crate::store::{StoreError, TextKind};

/// Bytes of a piece while a text is begun anew.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// What a kind of text is called in the tables.
pub(super) const fn number(kind: TextKind) -> i64 {
    match kind {
        TextKind::Versions => 1,
        TextKind::Names => 2,
    }
}

/// A text that is read piece by piece. Many small pieces are put together first: each append copies the last part of
/// a text.
pub(super) struct Gathering {
    text: Text,
    waiting: Vec<u8>,
}

impl Gathering {
    /// Goes on behind `start`.
    pub(super) const fn behind(start: Text) -> Self {
        Self { text: start, waiting: Vec::new() }
    }

    pub(super) fn add(&mut self, piece: &[u8]) {
        self.waiting.extend_from_slice(piece);
        if self.waiting.len() >= PIECE_BYTES {
            self.text.append(&self.waiting);
            self.waiting.clear();
        }
    }

    /// The whole, if it is as long as it should be.
    pub(super) fn finish(
        self,
        kind: TextKind,
        length: u64,
        digests: Digests,
    ) -> Result<Text, StoreError> {
        let text = self.text.with(&self.waiting, digests);
        match text.length() == length {
            true => Ok(text),
            false => Err(StoreError::Damaged(format!(
                "{kind:?} has {} of {length} bytes",
                text.length()
            ))),
        }
    }
}
