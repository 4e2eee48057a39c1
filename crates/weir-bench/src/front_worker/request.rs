//! The part of a request that a worker has to understand.

use std::time::Duration;

use memchr::memmem;

/// Longest accepted service time.
const SERVICE_MAX: Duration = Duration::from_secs(60);

/// Longest word that a response repeats.
const ECHO_BYTES_MAX: usize = 64;

/// Returns where the head at the front of `input` ends, or `None` while it is incomplete.
pub(super) fn head_end(input: &[u8]) -> Option<usize> {
    memmem::find(input, b"\r\n\r\n").map(|at| at + 4)
}

/// What a worker has to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) service: Duration,
    /// What the response's body is to be, by `echo=`: a short word, so that a client recognizes its response.
    pub(super) echo: Option<Vec<u8>>,
}

pub(super) fn parse(head: &[u8]) -> Request {
    Request { service: service_time(head), echo: echo(head) }
}

fn echo(head: &[u8]) -> Option<Vec<u8>> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or(head);
    let at = memmem::find(line, b"echo=")?;
    let word = line[at + 5..].iter().copied().take_while(u8::is_ascii_alphanumeric);
    Some(word.take(ECHO_BYTES_MAX).collect())
}

/// Returns the time of `us=` in the request's first line, by default 0.
fn service_time(head: &[u8]) -> Duration {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or(head);
    let Some(at) = memmem::find(line, b"us=") else {
        return Duration::ZERO;
    };
    let digits = line[at + 3..].iter().take_while(|byte| byte.is_ascii_digit());
    let number = |sum: u64, byte: &u8| sum.saturating_mul(10).saturating_add((byte - b'0').into());
    Duration::from_micros(digits.fold(0, number)).min(SERVICE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_time_is_read_from_the_first_line_and_limited() {
        for (head, microseconds) in [
            ("GET /sleep?us=5000 HTTP/1.1\r\n\r\n", 5000),
            ("GET /sleep?us=0 HTTP/1.1\r\nX: us=7\r\n\r\n", 0),
            ("GET / HTTP/1.1\r\nX: us=7\r\n\r\n", 0),
            ("GET /?us=99999999999999999999999 HTTP/1.1\r\n\r\n", 60_000_000),
        ] {
            let expected = Duration::from_micros(microseconds);
            assert_eq!(service_time(head.as_bytes()), expected, "{head}");
        }
    }

    #[test]
    fn response_repeats_the_word_of_the_first_line() {
        for (head, word) in [
            ("GET /?us=1&echo=0af3 HTTP/1.1\r\n\r\n", Some("0af3")),
            ("GET /?us=1 HTTP/1.1\r\nX: echo=7\r\n\r\n", None),
        ] {
            assert_eq!(echo(head.as_bytes()).as_deref(), word.map(str::as_bytes), "{head}");
        }
    }

    #[test]
    fn head_ends_with_an_empty_line() {
        assert_eq!(head_end(b"GET / HTTP/1.1\r\nHost: x\r\n"), None);
        assert_eq!(head_end(b"GET / HTTP/1.1\r\n\r\nmore"), Some(18));
    }
}
