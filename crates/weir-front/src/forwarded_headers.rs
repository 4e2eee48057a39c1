//! Which header fields Weir writes for an app's workers, about the client and the proxies between.
//!
//! A client's fields of these names never reach a worker, even if Weir does not write them.

use std::fmt;
use std::str::FromStr;

/// A header field, or a group of them, that Weir can write for workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    XForwarded,
    /// `Forwarded`, the standard field with the same information (RFC 7239).
    Forwarded,
    XRequestStart,
    XRequestId,
}

impl ForwardedHeader {
    /// All of them, which is the default.
    pub const ALL: [Self; 4] =
        [Self::XForwarded, Self::Forwarded, Self::XRequestStart, Self::XRequestId];

    const fn name(self) -> &'static str {
        match self {
            Self::XForwarded => "x-forwarded",
            Self::Forwarded => "forwarded",
            Self::XRequestStart => "x-request-start",
            Self::XRequestId => "x-request-id",
        }
    }
}

/// The error for a name that is none of these headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no header that Weir writes; it writes \"x-forwarded\" (X-Forwarded-For, -Proto and -Host), \"forwarded\", \"x-request-start\" and \"x-request-id\""
)]
pub struct ForwardedHeaderError(String);

impl FromStr for ForwardedHeader {
    type Err = ForwardedHeaderError;

    fn from_str(text: &str) -> Result<Self, ForwardedHeaderError> {
        let found = Self::ALL.into_iter().find(|header| header.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| ForwardedHeaderError(text.to_owned()))
    }
}

impl fmt::Display for ForwardedHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A set of [`ForwardedHeader`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForwardedHeaders(u8);

impl ForwardedHeaders {
    pub(crate) fn from_list(headers: &[ForwardedHeader]) -> Self {
        Self(headers.iter().fold(0, |set, header| set | Self::bit(*header)))
    }

    pub(crate) const fn has(self, header: ForwardedHeader) -> bool {
        self.0 & Self::bit(header) != 0
    }

    const fn bit(header: ForwardedHeader) -> u8 {
        1 << header as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_round_trip_through_text() {
        for header in ForwardedHeader::ALL {
            assert_eq!(header.to_string().parse(), Ok(header));
        }
        assert_eq!("X-Request-Id".parse(), Ok(ForwardedHeader::XRequestId));
    }

    #[test]
    fn an_unknown_header_name_lists_the_known_names() {
        let error = "x-forwarded-for".parse::<ForwardedHeader>().expect_err("no name of a group");
        let text = error.to_string();
        assert!(text.starts_with("\"x-forwarded-for\" is no header that Weir writes"), "{text}");
        for header in ForwardedHeader::ALL {
            assert!(text.contains(&format!("\"{header}\"")), "{text}");
        }
    }

    #[test]
    fn a_header_set_contains_exactly_its_members() {
        let set =
            ForwardedHeaders::from_list(&[ForwardedHeader::Forwarded, ForwardedHeader::XRequestId]);
        let has = ForwardedHeader::ALL.map(|header| set.has(header));
        assert_eq!(has, [false, true, false, true]);
        assert!(!ForwardedHeaders::from_list(&[]).has(ForwardedHeader::XForwarded));
    }
}
