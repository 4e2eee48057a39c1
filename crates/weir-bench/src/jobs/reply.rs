//! Reads one reply (RESP subset of the Faktory protocol) from the front of a buffer, without copying.

use crate::event_loop::LoadError;

/// Longest status line or length line of a bulk string.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Largest bulk reply accepted.
const BULK_BYTES_MAX: usize = 256 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// `+text`
    Status(&'a [u8]),
    /// `-text`
    Error(&'a [u8]),
    /// `$n` and n bytes
    Bulk(&'a [u8]),
    /// `$-1`
    Null,
    /// `*n`: an array; its n replies follow.
    Array(usize),
}

/// Returns the first reply in `input` and its size, or `None` while it is incomplete.
pub(crate) fn parse(input: &[u8]) -> Result<Option<(Reply<'_>, usize)>, LoadError> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return if input.len() > LINE_BYTES_MAX { Err(not_a_reply(input)) } else { Ok(None) };
    };
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let after_line = end + 1;
    match line.split_first() {
        Some((b'+', text)) => Ok(Some((Reply::Status(text), after_line))),
        Some((b'-', text)) => Ok(Some((Reply::Error(text), after_line))),
        Some((b'*', digits)) => {
            let count = decimal(digits).ok_or_else(|| not_a_reply(line))?;
            Ok(Some((Reply::Array(count), after_line)))
        }
        Some((b'$', b"-1")) => Ok(Some((Reply::Null, after_line))),
        Some((b'$', digits)) => {
            let length = decimal(digits).filter(|length| *length <= BULK_BYTES_MAX);
            let length = length.ok_or_else(|| not_a_reply(line))?;
            // The body is followed by CR LF.
            let total = after_line + length + 2;
            if input.len() < total {
                return Ok(None);
            }
            Ok(Some((Reply::Bulk(&input[after_line..after_line + length]), total)))
        }
        _ => Err(not_a_reply(line)),
    }
}

/// Parses `digits`. `None` if they are empty, not decimal or more than 18.
pub(crate) fn decimal(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number * 10 + usize::from(digit - b'0')))
}

fn not_a_reply(line: &[u8]) -> LoadError {
    let start = &line[..line.len().min(80)];
    LoadError::Protocol(String::from_utf8_lossy(start).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &[u8], expected: &Reply<'_>, consumed: usize) {
        let (reply, length) = parse(input).expect("valid").expect("complete");
        assert_eq!((&reply, length), (expected, consumed));
    }

    #[test]
    fn every_kind_of_reply_is_parsed() {
        check(b"+OK\r\n+", &Reply::Status(b"OK"), 5);
        check(b"-ERR no\r\n", &Reply::Error(b"ERR no"), 9);
        check(b"$-1\r\n$", &Reply::Null, 5);
        check(b"$4\r\na\r\nb\r\n+OK\r\n", &Reply::Bulk(b"a\r\nb"), 10);
        check(b"$0\r\n\r\n", &Reply::Bulk(b""), 6);
        check(b"*12\r\n$", &Reply::Array(12), 5);
    }

    #[test]
    fn every_prefix_is_incomplete() {
        for whole in [b"+OK\r\n".as_slice(), b"$4\r\nabcd\r\n", b"$-1\r\n"] {
            for length in 0..whole.len() {
                assert_eq!(
                    parse(&whole[..length]).expect("no error"),
                    None,
                    "{length} of {whole:?}"
                );
            }
        }
    }

    #[test]
    fn invalid_replies_are_errors() {
        for wrong in
            [b"HTTP/1.1 400\r\n".as_slice(), b"$x\r\n", b"*-1\r\n", b"$99999999999\r\n", b"\r\n"]
        {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
