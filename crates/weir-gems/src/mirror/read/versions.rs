//! Parses `/versions`: the last line of a name has the digest of its `/info`.

use super::lines::Lines;
use super::{Header, ReadError};
use crate::name::GemName;

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionsLine<'a> {
    /// The digest of a name's `/info`.
    Gem { name: &'a str, md5: [u8; 16] },
    /// A line without a usable gem.
    Malformed,
}

/// Parser of the text, piece by piece.
#[derive(Debug)]
pub struct VersionsReader {
    header: Header,
    lines: Lines,
}

impl VersionsReader {
    /// Creates a parser for the text from its beginning.
    #[must_use]
    pub const fn new(line_bytes_max: usize) -> Self {
        Self { header: Header::expected(), lines: Lines::new(line_bytes_max) }
    }

    /// Creates a parser that starts at the end of a line, after the header.
    #[must_use]
    pub const fn from_a_line(line_bytes_max: usize) -> Self {
        Self { header: Header::read(), lines: Lines::new(line_bytes_max) }
    }

    /// Parses the next piece.
    ///
    /// # Errors
    /// Fails if the text is invalid.
    pub fn feed(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(VersionsLine<'_>),
    ) -> Result<(), ReadError> {
        let header = &mut self.header;
        self.lines.feed(piece, |line| {
            if !header.takes(line)? {
                each(parse(line).unwrap_or(VersionsLine::Malformed));
            }
            Ok(())
        })
    }

    /// Checks that the text may end here.
    ///
    /// # Errors
    /// Fails if there is no header, or if the text ends in the middle of a line.
    pub fn finish(&self) -> Result<(), ReadError> {
        match self.lines.is_finished() {
            true => self.header.finish(),
            false => Err(ReadError::Unfinished),
        }
    }
}

fn parse(line: &[u8]) -> Option<VersionsLine<'_>> {
    let line = str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let (name, versions, digest) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || versions.is_empty() || !is_usable(name) {
        return None;
    }
    let mut md5 = [0; 16];
    hex::decode_to_slice(digest, &mut md5).ok()?;
    Some(VersionsLine::Gem { name, md5 })
}

/// Returns whether a name can be used here. Names that consist of dots are excluded, because they
/// have a meaning in normalized paths.
pub(in crate::mirror) fn is_usable(name: &str) -> bool {
    name.parse::<GemName>().is_ok() && name.bytes().any(|byte| byte != b'.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> (Vec<(String, u8)>, u32, Result<(), ReadError>) {
        let mut reader = VersionsReader::new(1_000);
        let (mut gems, mut malformed) = (Vec::new(), 0);
        let fed = reader.feed(text.as_bytes(), |line| match line {
            VersionsLine::Gem { name, md5 } => gems.push((name.to_owned(), md5[0])),
            VersionsLine::Malformed => malformed += 1,
        });
        (gems, malformed, fed.and_then(|()| reader.finish()))
    }

    #[test]
    fn lines_are_names_with_digests() {
        let (one, two) = ("01".repeat(16), "02".repeat(16));
        let text = format!(
            "created_at: 2026-11-22T06:20:58Z\n---\nrack 1.0,1.1-java {one}\na -1.0 {two}\n"
        );
        let (gems, malformed, end) = read(&text);
        assert_eq!(gems, [("rack".to_owned(), 1), ("a".to_owned(), 2)]);
        assert_eq!((malformed, end), (0, Ok(())));
    }

    #[test]
    fn what_is_no_line_is_counted_and_what_is_no_text_is_told() {
        let md5 = "01".repeat(16);
        for line in [
            "",
            "rack",
            "rack 1.0",
            "rack 1.0 1234",
            &format!("rack  {md5}"),
            &format!("rack 1.0 {md5} more"),
            &format!("ra/ck 1.0 {md5}"),
            &format!(".. 1.0 {md5}"),
            &format!("rack 1.0 {}", "zz".repeat(16)),
        ] {
            let (gems, malformed, _) = read(&format!("---\n{line}\n"));
            assert_eq!((gems.len(), malformed), (0, 1), "{line:?}");
        }
        assert_eq!(read("<html>\n").2, Err(ReadError::Header));
        assert_eq!(read(&"<html>\n".repeat(20)).2, Err(ReadError::Header));
        assert_eq!(read("").2, Err(ReadError::Header));
        assert_eq!(read("---\nrack 1.0").2, Err(ReadError::Unfinished));
    }

    proptest! {
        #[test]
        fn any_bytes_are_lines_or_a_refusal(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut reader = VersionsReader::new(100);
            let text = [b"---\n", &bytes[..]].concat();
            let fed = reader.feed(&text, |line| {
                if let VersionsLine::Gem { name, .. } = line {
                    assert!(is_usable(name) && !name.contains('/'));
                }
            });
            let _ = fed.and_then(|()| reader.finish());
        }
    }
}
