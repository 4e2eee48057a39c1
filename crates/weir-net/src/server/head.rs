//! A request's head, borrowed from the read buffer.

mod arriving;
mod received;

use httparse::Header;

use super::RawTarget;
use super::limits::HEADERS_USUAL;

pub(super) use arriving::{Arriving, Parsed};
pub(super) use received::Received;

/// Method, target, version and header fields of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HttpRequestHead<'a> {
    pub method: &'a str,
    /// Usually path and query. As it was sent, unless there is a `raw_target`.
    pub target: &'a str,
    /// The target as it was sent, if `target` is its percent-encoded form.
    pub raw_target: Option<&'a RawTarget>,
    /// The minor version of HTTP/1.
    pub version: u8,
    pub headers: &'a [Header<'a>],
}

impl<'a> HttpRequestHead<'a> {
    /// Parses the head at the start of `bytes` and calls `on_head` with it, for fuzzers. Returns
    /// None if the head is rejected or incomplete.
    pub fn read<T>(bytes: &[u8], on_head: impl FnOnce(&HttpRequestHead<'_>) -> T) -> Option<T> {
        let on_parsed = |parsed: Parsed<'_>, _: &[u8]| match parsed {
            Parsed::Complete(head, _) => Some(on_head(&head)),
            Parsed::Refused(_) | Parsed::Http2 => None,
        };
        Arriving::default().arrive(bytes, usize::MAX, HEADERS_USUAL, on_parsed).flatten()
    }

    /// Returns the values of all fields of this name, in their order. Names are compared without
    /// regard to case.
    pub fn values<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    }

    /// Returns the first value of a field.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// Returns the target without scheme, host and query.
    #[must_use]
    pub fn path(&self) -> &'a str {
        let target = self.origin_form();
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    /// Returns the part of the target behind the `?`.
    #[must_use]
    pub fn query(&self) -> Option<&'a str> {
        self.origin_form().split_once('?').map(|(_, query)| query)
    }

    /// Returns `/path` for `http://host/path` (RFC 9112, 3.2.2: servers accept the absolute form).
    fn origin_form(&self) -> &'a str {
        let Some((_, behind_scheme)) = self.target.split_once("://") else {
            return self.target;
        };
        if self.target.starts_with('/') {
            return self.target;
        }
        behind_scheme.find(['/', '?']).map_or("/", |start| &behind_scheme[start..])
    }

    /// Returns whether the head requests an upgrade. `Upgrade` without `Connection: upgrade` is not
    /// meant for this server, and HTTP/1.0 has no upgrades (RFC 9110, section 7.8).
    pub(super) fn requests_upgrade(&self) -> bool {
        self.version > 0
            && self.values("upgrade").any(is_upgrade)
            && self.values("connection").any(names_upgrade)
    }

    /// Returns whether a body follows, according to the head.
    pub(super) fn announces_body(&self) -> bool {
        self.value("transfer-encoding").is_some()
            || self.values("content-length").any(|value| value != b"0")
    }
}

/// Returns whether a value of `Upgrade` names a protocol other than HTTP/2, whose upgrade is
/// obsolete (RFC 9113, section 3.1): such a request is served as HTTP/1.
pub(super) fn is_upgrade(value: &[u8]) -> bool {
    !value.eq_ignore_ascii_case(b"h2c")
}

/// Returns whether a value of `Connection` names `Upgrade`.
pub(super) fn names_upgrade(value: &[u8]) -> bool {
    let mut tokens = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    tokens.any(|token| token.eq_ignore_ascii_case(b"upgrade"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(target: &str) -> HttpRequestHead<'_> {
        HttpRequestHead { method: "GET", target, raw_target: None, version: 1, headers: &[] }
    }

    #[test]
    fn a_target_is_parsed_in_origin_and_absolute_form() {
        for (target, path, query) in [
            ("/app/key?protocol=7", "/app/key", Some("protocol=7")),
            ("/app/key", "/app/key", None),
            ("/?", "/", Some("")),
            ("http://example.org/app/key?a=b", "/app/key", Some("a=b")),
            ("http://example.org", "/", None),
            ("http://example.org?a", "", Some("a")),
            ("/to?next=http://example.org/x", "/to", Some("next=http://example.org/x")),
            ("*", "*", None),
        ] {
            assert_eq!((head(target).path(), head(target).query()), (path, query), "{target}");
        }
    }

    #[test]
    fn header_fields_are_found_in_any_case_and_kept_in_order() {
        let field = |name, value| Header { name, value };
        let headers = [field("Via", b"a"), field("Upgrade", b"x"), field("VIA", b"b")];
        let head = HttpRequestHead { headers: &headers, ..head("/") };
        assert_eq!(head.values("via").collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(head.value("via"), Some(b"a".as_slice()));
    }

    #[test]
    fn an_upgrade_needs_two_fields_and_http_1_1() {
        for (version, upgrade, connection, asks) in [
            (1, "websocket", "Upgrade", true),
            (1, "websocket", "keep-alive, upgrade", true),
            (1, "websocket", "keep-alive", false),
            (0, "websocket", "upgrade", false),
            // HTTP/2 has none.
            (1, "h2c", "upgrade", false),
        ] {
            let field = |name, value: &'static str| Header { name, value: value.as_bytes() };
            let headers = [field("Upgrade", upgrade), field("Connection", connection)];
            let head = HttpRequestHead { version, headers: &headers, ..head("/") };
            assert_eq!(head.requests_upgrade(), asks, "{version} {upgrade} {connection}");
        }
    }

    #[test]
    fn a_nonzero_length_announces_a_body() {
        for (name, value, is_body) in [
            ("Content-Length", "0", false),
            ("Content-Length", "5", true),
            ("Transfer-Encoding", "chunked", true),
            ("Accept", "5", false),
        ] {
            let headers = [Header { name, value: value.as_bytes() }];
            assert_eq!(
                HttpRequestHead { headers: &headers, ..head("/") }.announces_body(),
                is_body,
                "{name}"
            );
        }
    }
}
