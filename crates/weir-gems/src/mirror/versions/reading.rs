//! Reads a text and tracks its digests, its length and the last line of each name. Pure functions.

use hashbrown::HashMap;

use crate::index::digest::RunningDigest;
use crate::mirror::claims::Claims;
use crate::mirror::error::Problem;
use crate::mirror::read::{ReadError, VersionsLine, VersionsReader};
use crate::mirror::settings::MirrorLimits;
use crate::store::mirror::{Noted, Position};

/// Bytes at the end that are requested again to detect a rewritten text: the digest of a line and
/// more.
const OVERLAP_BYTES: usize = 64;

/// The last line of each name.
#[derive(Debug, Default)]
pub(in crate::mirror) struct Listed(pub(in crate::mirror) HashMap<Box<str>, Line>);

/// A line: its position and its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mirror) struct Line {
    pub(in crate::mirror) number: u32,
    pub(in crate::mirror) md5: [u8; 16],
}

impl Listed {
    /// Returns the names in the order of their last lines.
    pub(super) fn in_order(self) -> Vec<Noted> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_unstable_by_key(|(_, line)| line.number);
        // This can't fail: only valid names were added.
        let noted = all.into_iter().filter_map(|(name, line)| {
            Some(Noted { name: name.parse().ok()?, md5: Some(line.md5) })
        });
        noted.collect()
    }
}

#[derive(Debug)]
pub(super) struct Reading<'a> {
    limits: &'a MirrorLimits,
    reader: VersionsReader,
    digest: RunningDigest,
    length: u64,
    /// The last bytes of the text.
    overlap: Vec<u8>,
    lines: u32,
    malformed: u64,
    listed: Listed,
    /// Whether a piece exceeded the limit of names or lines.
    has_too_many: bool,
    /// Maximum number of unreadable lines; 0 for a tail, since a tail must continue the known text.
    malformed_max: u64,
}

impl<'a> Reading<'a> {
    pub(super) fn new(limits: &'a MirrorLimits) -> Self {
        Self {
            limits,
            reader: VersionsReader::new(limits.line_bytes_max),
            digest: RunningDigest::default(),
            length: 0,
            overlap: Vec::new(),
            lines: 0,
            malformed: 0,
            listed: Listed::default(),
            has_too_many: false,
            malformed_max: limits.malformed_lines_max,
        }
    }

    pub(super) fn go_on(position: &Position, limits: &'a MirrorLimits) -> Result<Self, Problem> {
        Ok(Self {
            reader: VersionsReader::from_a_line(limits.line_bytes_max),
            digest: RunningDigest::restore(&position.digest_state)?,
            length: position.length,
            overlap: position.overlap.clone(),
            malformed_max: 0,
            ..Self::new(limits)
        })
    }

    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<(), Problem> {
        self.length += piece.len() as u64;
        if self.length > self.limits.versions_bytes_max {
            return Err(Problem::TooLong(self.limits.versions_bytes_max));
        }
        self.digest.update(piece);
        self.record_end(piece);
        let (listed, lines, malformed) = (&mut self.listed, &mut self.lines, &mut self.malformed);
        let (names_max, has_too_many) = (self.limits.names_max, &mut self.has_too_many);
        self.reader.feed(piece, |line| match line {
            VersionsLine::Malformed => *malformed += 1,
            VersionsLine::Gem { name, md5 } => {
                *lines = lines.saturating_add(1);
                match listed.0.len() >= names_max && !listed.0.contains_key(name) {
                    true => *has_too_many = true,
                    false => {
                        listed.0.insert(name.into(), Line { number: *lines, md5 });
                    }
                }
            }
        })?;
        match self.malformed > self.malformed_max {
            true => Err(ReadError::Malformed(self.malformed).into()),
            false if self.has_too_many => Err(Problem::TooManyNames(names_max)),
            false => Ok(()),
        }
    }

    fn record_end(&mut self, piece: &[u8]) {
        let piece = &piece[piece.len().saturating_sub(OVERLAP_BYTES)..];
        let kept = (OVERLAP_BYTES - piece.len()).min(self.overlap.len());
        self.overlap.drain(..self.overlap.len() - kept);
        self.overlap.extend_from_slice(piece);
    }

    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    pub(super) const fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Returns the list and the new position, if the text matches its stated checksum.
    pub(super) fn finish(
        self,
        claims: Claims,
        are_tags_md5: bool,
    ) -> Result<(Listed, Position), Problem> {
        self.reader.finish()?;
        if !claims.hold(&self.digest.digests(), are_tags_md5) {
            return Err(Problem::Digest);
        }
        let position = Position {
            length: self.length,
            digest_state: self.digest.save(),
            overlap: self.overlap,
            etag: claims.etag,
        };
        Ok((self.listed, position))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(lines: &[(u8, u8)]) -> String {
        let lines =
            lines.iter().map(|(name, md5)| format!("gem{name} 1.0 {}\n", hex::encode([*md5; 16])));
        lines.collect()
    }

    proptest! {
        #[test]
        fn a_tail_goes_on_where_the_text_ended(
            before in prop::collection::vec((0_u8..5, any::<u8>()), 0..6),
            after in prop::collection::vec((0_u8..5, any::<u8>()), 0..6),
            cut in 0_usize..80,
        ) {
            let limits = MirrorLimits::default();
            let begin = format!("created_at: x\n---\n{}", text(&before));
            let tail = text(&after);
            let mut first = Reading::new(&limits);
            let at = cut.min(begin.len());
            first.feed(&begin.as_bytes()[..at]).unwrap();
            first.feed(&begin.as_bytes()[at..]).unwrap();
            let (_, position) = first.finish(Claims::default(), false).unwrap();
            prop_assert!(begin.as_bytes().ends_with(&position.overlap));
            prop_assert_eq!(position.overlap.len(), OVERLAP_BYTES.min(begin.len()));
            let mut next = Reading::go_on(&position, &limits).unwrap();
            next.feed(tail.as_bytes()).unwrap();
            let (listed, position) = next.finish(Claims::default(), false).unwrap();
            let mut whole = Reading::new(&limits);
            whole.feed(format!("{begin}{tail}").as_bytes()).unwrap();
            let (all, expected) = whole.finish(Claims::default(), false).unwrap();
            prop_assert_eq!(position, expected);
            for noted in listed.in_order() {
                prop_assert_eq!(Some(all.0[noted.name.as_str()].md5), noted.md5);
            }
        }
    }

    #[test]
    fn limits_hold_and_a_tail_has_no_line_that_is_none() {
        let limits = MirrorLimits {
            names_max: 2,
            malformed_lines_max: 1,
            versions_bytes_max: 300,
            ..MirrorLimits::default()
        };
        let read = |lines: &str| {
            let mut reading = Reading::new(&limits);
            reading.feed(b"---\n").and_then(|()| reading.feed(lines.as_bytes()))
        };
        assert!(read(&text(&[(1, 1), (2, 1), (1, 2)])).is_ok());
        let many = read(&text(&[(1, 1), (2, 1), (3, 1)]));
        assert!(matches!(many, Err(Problem::TooManyNames(2))), "{many:?}");
        let long = read(&text(&[(1, 1); 9]));
        assert!(matches!(long, Err(Problem::TooLong(300))), "{long:?}");
        assert!(read("x\n").is_ok());
        let malformed = read("x\nx\n");
        assert!(matches!(malformed, Err(Problem::Read(ReadError::Malformed(2)))));
        let mut reading = Reading::new(&limits);
        reading.feed(b"---\n").unwrap();
        let (_, position) = reading.finish(Claims::default(), false).unwrap();
        assert!(Reading::go_on(&position, &limits).unwrap().feed(b"x\n").is_err());
    }
}
