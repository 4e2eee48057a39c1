//! `/names`: one in each line.

use super::lines::Lines;
use super::versions::is_usable;
use super::{Header, ReadError};

/// Reads the text as it comes.
#[derive(Debug)]
pub struct NamesReader {
    header: Header,
    lines: Lines,
    malformed: u64,
}

impl NamesReader {
    /// From the beginning of the text.
    #[must_use]
    pub const fn new(line_bytes_max: usize) -> Self {
        Self { header: Header::expected(), lines: Lines::new(line_bytes_max), malformed: 0 }
    }

    /// Goes on with the next piece.
    ///
    /// # Errors
    /// It is no such text.
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

    /// How many lines are no names that could be kept here.
    ///
    /// # Errors
    /// The text can't end here.
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
