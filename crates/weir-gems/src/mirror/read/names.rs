//! Parses `/names`: one name per line.

use super::lines::Lines;
use super::versions::is_usable;
use super::{Header, ReadError};

/// Parser of the text, piece by piece.
#[derive(Debug)]
pub struct NamesReader {
    header: Header,
    lines: Lines,
    malformed: u64,
}

impl NamesReader {
    /// Creates a parser for the text from its beginning.
    #[must_use]
    pub const fn new(line_bytes_max: usize) -> Self {
        Self { header: Header::expected(), lines: Lines::new(line_bytes_max), malformed: 0 }
    }

    /// Parses the next piece and calls `each` with its names.
    ///
    /// # Errors
    /// Fails if the text is invalid.
    pub fn feed(&mut self, piece: &[u8], mut each: impl FnMut(&str)) -> Result<(), ReadError> {
        let (header, malformed) = (&mut self.header, &mut self.malformed);
        self.lines.feed(piece, |line| {
            if header.takes(line)? {
                return Ok(());
            }
            match str::from_utf8(line).ok().filter(|name| is_usable(name)) {
                Some(name) => each(name),
                None => *malformed += 1,
            }
            Ok(())
        })
    }

    /// Ends the text. Returns the number of lines that are not usable names.
    ///
    /// # Errors
    /// Fails if the text is incomplete.
    pub fn finish(self) -> Result<u64, ReadError> {
        if !self.lines.is_finished() {
            return Err(ReadError::Unfinished);
        }
        self.header.finish().map(|()| self.malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, Result<u64, ReadError>) {
        let (mut reader, mut names) = (NamesReader::new(100), Vec::new());
        let fed = reader.feed(text.as_bytes(), |name| names.push(name.to_owned()));
        (names, fed.and_then(|()| reader.finish()))
    }

    #[test]
    fn a_line_is_a_name() {
        assert_eq!(read("---\na\nb/c\nd\n"), (vec!["a".to_owned(), "d".to_owned()], Ok(1)));
        assert_eq!(read("---\na").1, Err(ReadError::Unfinished));
        assert_eq!(read("a\n").1, Err(ReadError::Header));
        assert!(matches!(read(&"a".repeat(101)).1, Err(ReadError::Line(_))));
    }
}
