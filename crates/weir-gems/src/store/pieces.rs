//! Pieces in which a store saves `/versions` and `/names`.

use crate::index::digest::Digests;
use crate::index::text::Text;
use crate::store::{StoreError, TextKind};

/// Size of a piece in bytes when a text is rewritten.
pub(super) const PIECE_BYTES: usize = 256 << 10;

/// Returns the id of a text in the tables.
pub(super) const fn number(kind: TextKind) -> i64 {
    match kind {
        TextKind::Versions => 1,
        TextKind::Names => 2,
    }
}

/// Assembles a text from its pieces. Small pieces are joined first, because each append copies the
/// last part of a text.
pub(super) struct Gathering {
    text: Text,
    waiting: Vec<u8>,
}

impl Gathering {
    /// Starts after the text `start`.
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

    /// Returns the whole text if it has the expected length.
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
