//! Origins of the pages from which browsers may connect.

use std::fmt;
use std::str::FromStr;

/// `https://example.org`, `example.org` (any scheme), `*.example.org` (any host below it), or `*`.
/// The port must match only if the pattern has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginPattern {
    scheme: Option<Box<str>>,
    host: Host,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Any,
    Exactly(Box<str>),
    Below(Box<str>),
}

/// The text is not a valid pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an origin; write for example \"https://example.org\", \"example.org\", \"*.example.org\" or \"*\""
)]
pub struct OriginError(String);

impl OriginPattern {
    /// Returns whether a browser's `Origin` matches the pattern.
    #[must_use]
    pub fn matches(&self, origin: &str) -> bool {
        let Some((scheme, host, port)) = split(origin) else { return false };
        let is_scheme = match (&self.scheme, scheme) {
            (Some(expected), Some(scheme)) => scheme.eq_ignore_ascii_case(expected),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let is_host = match &self.host {
            Host::Any => true,
            Host::Exactly(expected) => host.eq_ignore_ascii_case(expected),
            Host::Below(suffix) => is_below(host, suffix),
        };
        is_scheme && is_host && (self.port.is_none() || self.port == port)
    }
}

/// Returns whether `host` ends with `suffix`, which begins with a dot.
fn is_below(host: &str, suffix: &str) -> bool {
    let start = host.len().checked_sub(suffix.len()).filter(|start| *start > 0);
    start.and_then(|start| host.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

/// Splits an origin into scheme, host and port.
fn split(text: &str) -> Option<(Option<&str>, &str, Option<u16>)> {
    let (scheme, rest) = match text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, text),
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port.parse().ok()?)),
        _ => (rest, None),
    };
    let is_host = !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']);
    is_host.then_some((scheme, host, port))
}

impl FromStr for OriginPattern {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let error = || OriginError(text.to_owned());
        let (scheme, host, port) = split(text).ok_or_else(error)?;
        let host = match host {
            "*" => Host::Any,
            host => match host.strip_prefix('*') {
                Some(suffix) if suffix.starts_with('.') && !suffix.contains('*') => {
                    Host::Below(Box::from(suffix))
                }
                None if !host.contains('*') => Host::Exactly(Box::from(host)),
                _ => return Err(error()),
            },
        };
        if scheme.is_some_and(str::is_empty) {
            return Err(error());
        }
        Ok(Self { scheme: scheme.map(Box::from), host, port })
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = &self.scheme {
            write!(formatter, "{scheme}://")?;
        }
        match &self.host {
            Host::Any => write!(formatter, "*")?,
            Host::Exactly(host) => write!(formatter, "{host}")?,
            Host::Below(suffix) => write!(formatter, "*{suffix}")?,
        }
        match self.port {
            Some(port) => write!(formatter, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, origin: &str) -> bool {
        let parsed: OriginPattern = pattern.parse().unwrap();
        assert_eq!(parsed.to_string(), pattern);
        parsed.matches(origin)
    }

    #[test]
    fn origin_patterns_accept_exactly_the_matching_origins() {
        for (pattern, origin, expected) in [
            ("https://example.org", "https://example.org", true),
            ("https://example.org", "https://EXAMPLE.org:8443", true),
            ("https://example.org", "http://example.org", false),
            ("https://example.org:443", "https://example.org:8443", false),
            ("example.org", "http://example.org:3000", true),
            ("example.org", "http://evil-example.org", false),
            ("*.example.org", "https://a.b.example.org", true),
            ("*.example.org", "https://example.org", false),
            ("*.example.org", "https://.example.org.evil.net", false),
            ("*", "https://anything.net", true),
            ("*", "null", true),
            ("example.org", "null", false),
            ("localhost", "http://localhost:5173", true),
        ] {
            assert_eq!(matches(pattern, origin), expected, "{pattern} {origin}");
        }
    }

    #[test]
    fn an_invalid_origin_pattern_suggests_a_correction() {
        for text in ["", "https://", "a*b.org", "**", "*example.org", "http://x/path", "x:port"] {
            let error = text.parse::<OriginPattern>().unwrap_err();
            assert!(error.to_string().contains("write for example"), "{text}");
        }
    }
}
