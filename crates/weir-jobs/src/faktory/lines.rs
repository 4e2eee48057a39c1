//! Splits bytes into commands: a command is a line that ends in `\n` or `\r\n`.

use memchr::memchr;

use crate::metrics::FaktoryVerb;

/// One command as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FaktoryCommand<'a> {
    pub(crate) verb: FaktoryVerb,
    /// The bytes of the verb, for errors about unknown verbs.
    pub(crate) verb_text: &'a [u8],
    /// The bytes after the first space.
    pub(crate) rest: &'a [u8],
}

impl<'a> FaktoryCommand<'a> {
    /// Splits a line (without its line end) at the first space.
    pub(crate) fn parse(line: &'a [u8]) -> Self {
        let (verb_text, rest) = match memchr(b' ', line) {
            Some(space) => (&line[..space], &line[space + 1..]),
            None => (line, &line[line.len()..]),
        };
        Self { verb: FaktoryVerb::parse(verb_text), verb_text, rest }
    }
}

/// Iterates over the complete lines of `bytes`, without their line ends. Ignores bytes after the
/// last `\n`.
#[derive(Clone, Debug)]
pub(crate) struct CompleteLines<'a> {
    bytes: &'a [u8],
}

impl<'a> CompleteLines<'a> {
    pub(crate) const fn of(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the number of bytes not yet iterated over.
    pub(crate) const fn bytes_left(&self) -> usize {
        self.bytes.len()
    }

    /// Returns and consumes the next line if its verb is `verb`.
    pub(crate) fn next_if(&mut self, verb: FaktoryVerb) -> Option<&'a [u8]> {
        let mut ahead = self.clone();
        let line = ahead.next()?;
        let command = FaktoryCommand::parse(line);
        if command.verb != verb {
            return None;
        }
        *self = ahead;
        Some(line)
    }
}

impl<'a> Iterator for CompleteLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr(b'\n', self.bytes)?;
        let line = &self.bytes[..end];
        self.bytes = &self.bytes[end + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_split_and_the_tail_is_left() {
        let lines: Vec<&[u8]> = CompleteLines::of(b"INFO\r\nPUSH {\"a\": 1}\n\nFET").collect();
        assert_eq!(lines, [b"INFO" as &[u8], b"PUSH {\"a\": 1}", b""]);
    }

    #[test]
    fn arguments_keep_their_spaces() {
        let command = FaktoryCommand::parse(b"FETCH  a b ");
        assert_eq!((command.verb, command.rest), (FaktoryVerb::Fetch, b" a b " as &[u8]));
        assert_eq!(FaktoryCommand::parse(b"fetch a").verb, FaktoryVerb::Unknown);
        assert_eq!(FaktoryCommand::parse(b"END").rest, b"");
    }

    #[test]
    fn consecutive_commands_of_one_verb_are_taken() {
        let mut lines = CompleteLines::of(b"ACK 1\nACK 2\nFETCH a\n");
        assert_eq!(lines.next_if(FaktoryVerb::Ack), Some(b"ACK 1" as &[u8]));
        assert_eq!(lines.next_if(FaktoryVerb::Ack), Some(b"ACK 2" as &[u8]));
        assert_eq!(lines.next_if(FaktoryVerb::Ack), None);
        assert_eq!(lines.next(), Some(b"FETCH a" as &[u8]));
    }

    proptest! {
        #[test]
        fn lines_rejoin_to_the_input(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let complete = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let mut rebuilt: Vec<u8> = Vec::new();
            for line in CompleteLines::of(&bytes) {
                rebuilt.extend_from_slice(line);
                prop_assert!(!line.contains(&b'\n'));
                if bytes[rebuilt.len()] == b'\r' {
                    rebuilt.push(b'\r');
                }
                rebuilt.push(b'\n');
            }
            prop_assert_eq!(&rebuilt[..], &bytes[..complete]);
        }

        #[test]
        fn command_is_verb_space_and_arguments(line in prop::collection::vec(any::<u8>(), 0..100)) {
            let command = FaktoryCommand::parse(&line);
            prop_assert!(!command.verb_text.contains(&b' '));
            let rebuilt = [command.verb_text, b" ", command.rest].concat();
            prop_assert!(rebuilt == line || command.verb_text == &line[..]);
        }
    }
}
