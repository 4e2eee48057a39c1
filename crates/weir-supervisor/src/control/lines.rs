//! Lines of JSON, one object each, with a limit on their length.

use serde::Serialize;

/// A line exceeds its limit; the start of the next line cannot be found safely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of more than {0} bytes")]
pub struct LineTooLong(pub usize);

/// Splits the chunks of a stream into lines.
#[derive(Debug)]
pub struct LineSplitter {
    bytes: Vec<u8>,
    bytes_max: usize,
    /// No line ends before this index.
    searched: usize,
}

impl LineSplitter {
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max, searched: 0 }
    }

    /// Adds a chunk. Take all lines out before adding another one, which limits the buffer.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the bytes that were added and not taken out.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the next complete line without its newline. None: no line is complete.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineTooLong> {
        let found = self.bytes[self.searched..].iter().position(|&byte| byte == b'\n');
        let end = found.map(|offset| self.searched + offset);
        if end.unwrap_or(self.bytes.len()) > self.bytes_max {
            return Err(LineTooLong(self.bytes_max));
        }
        self.searched = if end.is_some() { 0 } else { self.bytes.len() };
        Ok(end.map(|end| {
            let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
            line.pop();
            line
        }))
    }
}

/// Encodes `message` as a line with its newline. JSON escapes newlines inside.
pub fn encode(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_the_same_in_any_pieces() {
        for piece in 1..8 {
            let mut lines = LineSplitter::new(5);
            let mut found = Vec::new();
            for bytes in b"one\n\ntwo\nthree\nrest".chunks(piece) {
                lines.add(bytes);
                while let Some(line) = lines.next_line().expect("short") {
                    found.push(String::from_utf8(line).expect("text"));
                }
            }
            assert_eq!(found, ["one", "", "two", "three"], "{piece}");
        }
    }

    proptest::proptest! {
        #[test]
        fn control_lines_parse_the_same_in_any_pieces(
            pieces in proptest::collection::vec("[ab\n]{0,6}", 0..20),
        ) {
            let whole = pieces.concat();
            let mut lines = LineSplitter::new(1_000);
            let mut found = Vec::new();
            for piece in &pieces {
                lines.add(piece.as_bytes());
                while let Ok(Some(line)) = lines.next_line() {
                    found.push(String::from_utf8_lossy(&line).into_owned());
                }
            }
            let mut expected: Vec<&str> = whole.split('\n').collect();
            expected.pop();
            proptest::prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_overlong_control_line_is_rejected_with_and_without_an_end() {
        for text in [b"sixsix".as_slice(), b"sixsix\n", b"ok\nsixsix"] {
            let mut lines = LineSplitter::new(5);
            lines.add(text);
            let result = lines.next_line().and_then(|_| lines.next_line());
            assert_eq!(result, Err(LineTooLong(5)));
        }
    }
}
