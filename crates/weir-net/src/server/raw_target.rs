//! The target of an HTTP/1 request as it was sent, if `http::Uri` cannot represent it.

use std::fmt;

use bytes::Bytes;
use hyper::Uri;

/// Path and query of a request as they were sent. An extension of each HTTP/1 request whose URI
/// differs from them: the URI has some bytes percent-encoded, and ends before a `#`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTarget(Bytes);

impl RawTarget {
    /// Returns any bytes but spaces and control characters. The path of `http://host?query` is
    /// empty.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Parses a target, and returns its URI, too. None: it is malformed.
    pub(super) fn parse(target: &[u8]) -> Option<(Uri, Self)> {
        let (before, path) = target.split_at(path_start(target)?);
        let uri = Uri::try_from(encoded(before, path)).ok()?;
        Some((uri, Self(Bytes::copy_from_slice(path))))
    }
}

/// For logs: bytes that are not UTF-8 are percent-encoded.
impl fmt::Display for RawTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            formatter.write_str(chunk.valid())?;
            for byte in chunk.invalid() {
                write!(formatter, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// Returns whether httparse accepts the byte in a target, while `http::Uri` rejects it (some bytes
/// only in a path, in a query or where they are not UTF-8) or cuts the target off.
pub(super) const fn is_unusual(byte: u8) -> bool {
    matches!(byte, b'"' | b'#' | b'<' | b'>' | b'`' | 0x80..)
}

/// Examines all bytes: without branches, this is faster than stopping at the first match.
pub(super) fn has_unusual(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, byte| found | is_unusual(*byte))
}

/// Returns where path and query begin. Unusual bytes are accepted only there: a host has none, and
/// nginx rejects a `#` directly behind it.
fn path_start(target: &[u8]) -> Option<usize> {
    if target.starts_with(b"/") {
        return Some(0);
    }
    let authority = target.windows(3).position(|bytes| bytes == b"://")? + 3;
    let length = target[authority..].iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'))?;
    let start = authority + length;
    (target[start] != b'#').then_some(start)
}

/// The bytes that `http::Uri` rejects in a path, and in a query.
const REFUSED_IN_PATH: &[u8] = b"<>`";
const REFUSED_IN_QUERY: &[u8] = b"\"<>";

/// Percent-encodes the bytes of a target that `http::Uri` rejects. All others stay as they are,
/// because rules match them.
fn encoded(before: &[u8], path: &[u8]) -> Vec<u8> {
    let (mut encoded, mut refused) = (before.to_vec(), REFUSED_IN_PATH);
    let mut add = |byte: u8, is_refused: bool| match is_refused {
        true => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        false => encoded.push(byte),
    };
    for chunk in path.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            if byte == b'?' {
                refused = REFUSED_IN_QUERY;
            }
            add(byte, refused.contains(&byte));
        }
        chunk.invalid().iter().for_each(|byte| add(*byte, true));
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the target for workers and the URI for routes and rules.
    fn parse(target: &[u8]) -> Option<(Vec<u8>, String)> {
        let (uri, raw) = RawTarget::parse(target)?;
        Some((raw.as_bytes().to_vec(), uri.to_string()))
    }

    #[test]
    fn a_target_is_kept_as_sent_and_encoded_for_its_uri() {
        for (target, raw, uri) in [
            (&b"/?f={\"a\":1}"[..], &b"/?f={\"a\":1}"[..], "/?f={%22a%22:1}"),
            (b"/<x>`?`<", b"/<x>`?`<", "/%3Cx%3E%60?`%3C"),
            (b"/\xff\xc3\xa9?\xc3", b"/\xff\xc3\xa9?\xc3", "/%FF\u{e9}?%C3"),
            (b"/a?b#c\"", b"/a?b#c\"", "/a?b"),
            (b"/#", b"/#", "/"),
            (b"http://a.example/\"?<", b"/\"?<", "http://a.example/\"?%3C"),
            (b"http://a.example?\"", b"?\"", "http://a.example/?%22"),
            // `http::Uri` accepts all of its bytes.
            (b"/\xc3\xa9\"", b"/\xc3\xa9\"", "/\u{e9}\""),
        ] {
            let parsed = parse(target).expect("a target");
            assert_eq!(parsed, (raw.to_vec(), uri.to_owned()), "{}", target.escape_ascii());
        }
    }

    #[test]
    fn only_path_and_query_can_have_unusual_bytes() {
        let malformed: [&[u8]; 9] = [
            b"\"",
            b"#",
            b"a\"b",
            b"?\"",
            b"*\"",
            b"http://a\"b/",
            b"http://[\xff]/",
            b"http://a#b/c",
            b"http:///\"",
        ];
        for target in malformed {
            assert_eq!(parse(target), None, "{}", target.escape_ascii());
        }
    }

    #[test]
    fn a_displayed_target_escapes_non_text_bytes() {
        let (_, raw) = RawTarget::parse(b"/\xc3\xa9\xff\"#<").expect("a target");
        assert_eq!(raw.to_string(), "/\u{e9}%FF\"#<");
    }

    proptest! {
        #[test]
        fn every_path_and_query_has_a_uri(path in prop::collection::vec(0x21_u8.., 0..60)) {
            let path: Vec<u8> = path.into_iter().filter(|byte| *byte != 0x7f).collect();
            let target = [b"/", &path[..]].concat();
            let (uri, raw) = RawTarget::parse(&target).expect("a URI");
            prop_assert_eq!(raw.as_bytes(), &target[..]);
            prop_assert!(uri.authority().is_none() && uri.path().starts_with('/'));
        }
    }
}
