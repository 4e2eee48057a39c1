//! Parses a head that arrives in pieces. The result does not depend on how it is cut.

use std::mem::MaybeUninit;

use httparse::{Header, Status};

use super::HttpRequestHead;
use crate::metrics::HeadRefusal;
use crate::server::http2::PREFACE;
use crate::server::limits::HEADERS_USUAL;
use crate::server::{RawTarget, messages};

/// The result of parsing the first bytes of a connection.
#[derive(Debug)]
pub(in crate::server) enum Parsed<'a> {
    /// A head and its length in bytes.
    Complete(HttpRequestHead<'a>, usize),
    Refused(HeadRefusal),
    /// The beginning of an HTTP/2 connection, as far as it has arrived.
    Http2,
}

/// The bytes of an incomplete head. A head that arrives in one piece is not copied.
#[derive(Debug, Default)]
pub(in crate::server) struct Arriving {
    partial: Vec<u8>,
}

impl Arriving {
    /// Adds `arrived`. Once the head is complete, or exceeds a limit, calls `on_head` with it and
    /// with all bytes so far, including those behind the head. Otherwise returns None.
    pub(in crate::server) fn arrive<T>(
        &mut self,
        arrived: &[u8],
        bytes_max: usize,
        headers_max: usize,
        on_head: impl FnOnce(Parsed<'_>, &[u8]) -> T,
    ) -> Option<T> {
        let is_first = self.partial.is_empty();
        let read = if is_first {
            arrived
        } else {
            self.partial.extend_from_slice(arrived);
            &self.partial
        };
        // Each parse starts from the beginning, so a slow head is parsed only when it may have
        // ended.
        let is_worth_parsing = is_first || read.len() >= bytes_max || may_end(read, arrived.len());
        let unusual = if is_worth_parsing { unusual_target(read) } else { None };
        let parseable = unusual.as_ref().map_or(read, |unusual| &unusual.read);
        let mut headers = [const { MaybeUninit::uninit() }; HEADERS_USUAL];
        let headers = &mut headers[..headers_max.min(HEADERS_USUAL)];
        let mut heap_headers = Vec::new();
        let mut parsed = if is_worth_parsing { parse(parseable, headers, bytes_max) } else { None };
        if is_too_many(parsed.as_ref()) && headers_max > HEADERS_USUAL {
            heap_headers.resize_with(headers_max, MaybeUninit::uninit);
            parsed = parse(parseable, &mut heap_headers, bytes_max);
        }
        match parsed {
            Some(Parsed::Complete(mut head, length)) => {
                if let Some(unusual) = &unusual {
                    let Some(target) = &unusual.target else {
                        return Some(on_head(Parsed::Refused(HeadRefusal::Malformed), read));
                    };
                    (head.target, head.raw_target) = (&target.0, Some(&target.1));
                }
                Some(on_head(Parsed::Complete(head, length), read))
            }
            Some(parsed) => Some(on_head(parsed, read)),
            None => {
                if is_first {
                    self.partial = arrived.to_vec();
                }
                None
            }
        }
    }
}

/// A head whose target has unusual bytes.
struct Unusual {
    /// The bytes so far, with the target changed to what httparse accepts.
    read: Vec<u8>,
    /// None: the target is malformed.
    target: Option<(String, RawTarget)>,
}

/// Returns None if the target has no unusual bytes.
fn unusual_target(read: &[u8]) -> Option<Unusual> {
    let (read, target) = messages::unusual_target(read)?;
    let target = RawTarget::parse(&target).map(|(uri, raw)| (uri.to_string(), raw));
    Some(Unusual { read, target })
}

fn is_too_many(parsed: Option<&Parsed<'_>>) -> bool {
    matches!(parsed, Some(Parsed::Refused(HeadRefusal::TooManyFields)))
}

/// Parses a head. Returns None if it is incomplete.
fn parse<'a>(
    read: &'a [u8],
    headers: &'a mut [MaybeUninit<Header<'a>>],
    bytes_max: usize,
) -> Option<Parsed<'a>> {
    let may_be_head = &read[..read.len().min(bytes_max)];
    let mut request = httparse::Request::new(&mut []);
    Some(match request.parse_with_uninit_headers(may_be_head, headers) {
        Ok(Status::Complete(length)) => {
            // A complete request has method, target and version.
            let method = request.method.unwrap_or_default();
            let target = request.path.unwrap_or_default();
            let version = request.version.unwrap_or_default();
            Parsed::Complete(
                HttpRequestHead {
                    method,
                    target,
                    raw_target: None,
                    version,
                    headers: request.headers,
                },
                length,
            )
        }
        Ok(Status::Partial) if read.len() < bytes_max => return None,
        Ok(Status::Partial) => Parsed::Refused(HeadRefusal::TooManyBytes),
        Err(httparse::Error::TooManyHeaders) => Parsed::Refused(HeadRefusal::TooManyFields),
        Err(httparse::Error::Version) if begins_http2(read) => Parsed::Http2,
        Err(httparse::Error::Version) => Parsed::Refused(HeadRefusal::Version),
        Err(_) => Parsed::Refused(HeadRefusal::Malformed),
    })
}

fn begins_http2(read: &[u8]) -> bool {
    let count = read.len().min(PREFACE.len());
    read[..count] == PREFACE[..count]
}

/// Returns whether the last `arrived` bytes of `read` may end a head, with an empty line.
fn may_end(read: &[u8], arrived: usize) -> bool {
    // The line feed before the empty line may be up to two bytes before them.
    let from = read.len().saturating_sub(arrived + 2);
    memchr::memchr_iter(b'\n', &read[from..])
        .any(|index| matches!(&read[from + index + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES_MAX: usize = 200;

    /// Parses bytes that arrive in these pieces. Returns the head or the rejection, and the bytes
    /// behind the head.
    fn outcome(pieces: &[&[u8]]) -> Option<(String, Vec<u8>)> {
        let mut arriving = Arriving::default();
        for (index, piece) in pieces.iter().enumerate() {
            let parsed_head =
                arriving.arrive(piece, BYTES_MAX, HEADERS_USUAL, |parsed, read| match parsed {
                    Parsed::Complete(head, length) => {
                        (format!("{head:?}"), read[length..].to_vec())
                    }
                    Parsed::Refused(reason) => (format!("{reason:?}"), Vec::new()),
                    Parsed::Http2 => ("Http2".to_owned(), Vec::new()),
                });
            if let Some((description, mut rest)) = parsed_head {
                if description.starts_with("HttpRequestHead") {
                    rest.extend(pieces[index + 1..].concat());
                }
                return Some((description, rest));
            }
        }
        None
    }

    #[test]
    fn a_head_is_complete_after_its_empty_line() {
        assert_eq!(outcome(&[b"GET / HTTP/1.1\r\nA: b\r\n"]), None);
        let (head, rest) = outcome(&[b"GET / HTTP/1.1\r\nA: b\r\n\r\nrest"]).expect("complete");
        assert!(head.starts_with("HttpRequestHead { method: \"GET\", target: \"/\", "), "{head}");
        assert_eq!(rest, b"rest");
    }

    #[test]
    fn a_target_with_unusual_bytes_is_kept_as_sent() {
        let on_parsed = |parsed: Parsed<'_>, _: &[u8]| match parsed {
            Parsed::Complete(head, length) => {
                let raw = head.raw_target.expect("kept").as_bytes().to_vec();
                (head.target.to_owned(), raw, length)
            }
            other => panic!("{other:?}"),
        };
        let bytes = b"GET /\xff?\"a HTTP/1.1\r\nA: \"\r\n\r\nrest";
        let judged = Arriving::default().arrive(bytes, BYTES_MAX, HEADERS_USUAL, on_parsed);
        let (target, raw, length) = judged.expect("complete");
        assert_eq!((target.as_str(), &raw[..]), ("/%FF?%22a", &b"/\xff?\"a"[..]));
        assert_eq!(&bytes[length..], b"rest");
    }

    #[test]
    fn each_malformed_head_has_its_own_error() {
        let fields = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a:\n".repeat(count));
        for (bytes, refusal) in [
            ("\x16\x03\x01\x02".to_owned(), HeadRefusal::Malformed),
            ("PRI * HTTP/2.1\r\n\r\n".to_owned(), HeadRefusal::Version),
            ("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_owned(), HeadRefusal::Version),
            (format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(BYTES_MAX)), HeadRefusal::TooManyBytes),
            ("GET http://a\"b/ HTTP/1.1\r\n\r\n".to_owned(), HeadRefusal::Malformed),
            ("GET /\"\u{1} HTTP/1.1\r\n\r\n".to_owned(), HeadRefusal::Malformed),
        ] {
            let (what, _) = outcome(&[bytes.as_bytes()]).expect("refused");
            assert_eq!(what, format!("{refusal:?}"), "{bytes}");
        }
        let endless = "x".repeat(BYTES_MAX + 1);
        let single: Vec<_> = endless.as_bytes().chunks(1).collect();
        let (what, _) = outcome(&single).expect("refused");
        assert_eq!(what, format!("{:?}", HeadRefusal::TooManyBytes));
        for headers_max in [5, HEADERS_USUAL, 2 * HEADERS_USUAL] {
            let count = |count| {
                let on_parsed = |parsed: Parsed<'_>, _: &[u8]| format!("{parsed:?}");
                let head = fields(count);
                let judged =
                    Arriving::default().arrive(head.as_bytes(), 4096, headers_max, on_parsed);
                judged.expect("judged")
            };
            assert!(count(headers_max).starts_with("Complete"), "{headers_max}");
            assert_eq!(count(headers_max + 1), "Refused(TooManyFields)");
        }
    }

    #[test]
    fn http2_is_recognized_by_its_preface_in_any_pieces() {
        for pieces in [vec![PREFACE], PREFACE.chunks(1).collect(), PREFACE.chunks(17).collect()] {
            assert_eq!(outcome(&pieces).expect("told").0, "Http2", "{pieces:?}");
        }
    }

    /// Generates valid, malformed and too long heads with bytes behind them. They end with an empty
    /// line, because a malformed head that arrives slowly is detected at such a line only.
    fn heads() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            8 => "(GET|POST) /[a-z?=]{0,20} HTTP/1\\.[01]",
            4 => "GET /[!-~\u{80}-\u{ff}]{0,20} HTTP/1\\.1",
            1 => "[ -~]{0,30}",
            1 => "GET / HTTP/2\\.0",
        ];
        let field = prop_oneof![
            8 => "[A-Za-z-]{1,10}: ?[ -~]{0,20}",
            1 => "[ -~]{0,20}",
        ];
        let end = prop_oneof![Just("\r\n"), Just("\n")];
        let parts = (line, prop::collection::vec(field, 0..10), end, "[ -~\r\n]{0,40}");
        parts.prop_map(|(line, fields, end, rest)| {
            let mut head = line + end;
            for field in fields {
                head.push_str(&field);
                head.push_str(end);
            }
            let head = head + end + &rest + "\r\n\r\n";
            // Each character is one byte, so targets are not always UTF-8.
            head.chars().map(|character| u8::try_from(character).expect("a byte")).collect()
        })
    }

    fn cut(bytes: &[u8], mut at: Vec<usize>) -> Vec<&[u8]> {
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for at in at.into_iter().map(|at| at % bytes.len()).chain([bytes.len()]) {
            if at > from {
                pieces.push(&bytes[from..at]);
                from = at;
            }
        }
        pieces
    }

    proptest! {
        #[test]
        fn a_head_parses_the_same_in_any_pieces(
            bytes in heads(),
            at in prop::collection::vec(0_usize..400, 0..20),
        ) {
            let whole = outcome(&[&bytes]);
            let single: Vec<_> = bytes.chunks(1).collect();
            prop_assert_eq!(&outcome(&single), &whole);
            prop_assert_eq!(&outcome(&cut(&bytes, at)), &whole);
        }
    }
}
