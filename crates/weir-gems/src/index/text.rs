//! A snapshot of a text that grows at its end, with consistent bytes, length and digests.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::digest::Digests;

/// Size at which a piece is closed. Appending copies at most this many bytes.
const PIECE_BYTES: usize = 128 << 10;

/// One state of a text. Clones share the bytes.
#[derive(Clone, Debug)]
pub struct Text {
    /// Number of times the text was rewritten.
    pub generation: u64,
    pub digests: Digests,
    length: u64,
    /// Full pieces, each with its offset in the text.
    closed: Arc<Vec<(u64, Bytes)>>,
    last: Bytes,
}

impl Text {
    /// Returns an empty text.
    #[must_use]
    pub fn empty(generation: u64) -> Self {
        Self {
            generation,
            digests: Digests::of(b""),
            length: 0,
            closed: Arc::default(),
            last: Bytes::new(),
        }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the text with `more` appended. `digests` are those of the result.
    #[must_use]
    pub fn with(&self, more: &[u8], digests: Digests) -> Self {
        let mut text = self.clone();
        text.append(more);
        text.digests = digests;
        text
    }

    /// Appends without updating the digests. Only for assembling a text.
    pub(crate) fn append(&mut self, mut more: &[u8]) {
        while !more.is_empty() {
            let room = PIECE_BYTES - self.last.len();
            let (now, later) = more.split_at(room.min(more.len()));
            self.last = [&self.last, now].concat().into();
            self.length += now.len() as u64;
            if self.last.len() == PIECE_BYTES {
                let piece = std::mem::take(&mut self.last);
                let start = self.length - piece.len() as u64;
                Arc::make_mut(&mut self.closed).push((start, piece));
            }
            more = later;
        }
    }

    /// Returns the pieces of a range. The part after the end of the text is left out.
    pub fn range(&self, range: Range<u64>) -> impl Iterator<Item = Bytes> + use<> {
        let first = self
            .closed
            .partition_point(|(start, piece)| *start + piece.len() as u64 <= range.start);
        let last_start = self.length - self.last.len() as u64;
        let last = (last_start, self.last.clone());
        let closed = Arc::clone(&self.closed);
        let count = closed.len();
        (first..=count)
            .map(move |index| closed.get(index).unwrap_or(&last).clone())
            .map(move |(start, piece)| within(start, &piece, &range))
            .filter(|piece| !piece.is_empty())
    }

    /// Copies the whole text into one buffer. For tests and small texts.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.range(0..self.length).flatten().collect()
    }
}

/// Returns the part of a piece, which begins at `start`, that lies in `range`.
fn within(start: u64, piece: &Bytes, range: &Range<u64>) -> Bytes {
    // A piece is in memory, so offsets in it fit in a usize.
    let place =
        |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX).min(piece.len());
    let (from, to) = (place(range.start), place(range.end));
    piece.slice(from..to.max(from))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grown(pieces: &[Vec<u8>]) -> Text {
        pieces.iter().fold(Text::empty(1), |text, piece| {
            let whole = [text.to_vec(), piece.clone()].concat();
            text.with(piece, Digests::of(&whole))
        })
    }

    #[test]
    fn a_snapshot_stays_as_it_was() {
        let before = grown(&[b"one".to_vec()]);
        let after = before.with(b" two", Digests::of(b"one two"));
        assert_eq!((before.to_vec(), before.length()), (b"one".to_vec(), 3));
        assert_eq!((after.to_vec(), after.length()), (b"one two".to_vec(), 7));
        assert_ne!(before.digests, after.digests);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
        #[test]
        fn a_range_is_what_it_says(
            lengths in prop::collection::vec(0_usize..150_000, 1..5),
            start in 0_u64..400_000, length in 0_u64..300_000,
        ) {
            let pieces: Vec<Vec<u8>> =
                lengths.iter().zip(1..).map(|(length, fill)| vec![fill; *length]).collect();
            let whole = pieces.concat();
            let text = grown(&pieces);
            let end = usize::try_from(start + length).unwrap().min(whole.len());
            let from = usize::try_from(start).unwrap().min(end);
            let got: Vec<u8> = text.range(start..start + length).flatten().collect();
            prop_assert!(got == whole[from..end]);
        }
    }
}
