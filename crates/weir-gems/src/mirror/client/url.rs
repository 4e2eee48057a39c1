//! The URL of an upstream: `http://HOST[:PORT][/PATH]`, or the same with `https`.

use std::fmt;
use std::str::FromStr;

use weir_net::http_client::{HttpUrl, HttpUrlError};

/// The base URL of an index, which `/versions` is appended to.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamUrl(HttpUrl);

/// Reasons why a text is not a valid URL of an upstream. The messages say what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamUrlError {
    /// The text is not a valid URL.
    #[error(transparent)]
    Url(#[from] HttpUrlError),
    /// The URL has a query, which can't be part of a base URL.
    #[error("{0:?} has a query; write the URL below which /versions is")]
    Query(String),
}

impl UpstreamUrl {
    /// Returns whether the scheme is `https`.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.0.is_encrypted()
    }

    /// Returns the server and the path of the index.
    pub(super) const fn http(&self) -> &HttpUrl {
        &self.0
    }

    /// Returns the URL of a path below this one.
    pub(super) fn with_target(&self, path: &str) -> Result<HttpUrl, HttpUrlError> {
        let base = self.0.target().path().trim_end_matches('/');
        self.0.with_target(&format!("{base}{path}"))
    }
}

impl FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<Self, UpstreamUrlError> {
        let url: HttpUrl = text.parse()?;
        if url.target().query().is_some() {
            return Err(UpstreamUrlError::Query(text.to_owned()));
        }
        Ok(Self(url.with_target(url.target().path().trim_end_matches('/'))?))
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Debug for UpstreamUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_path() {
        for (text, path, expected) in [
            ("https://rubygems.org", "/versions", "/versions"),
            ("https://rubygems.org/", "/versions", "/versions"),
            ("http://[::1]:7422/private/", "/info/a%2Db", "/private/info/a%2Db"),
        ] {
            let url: UpstreamUrl = text.parse().unwrap();
            assert_eq!(url.with_target(path).unwrap().target().to_string(), expected);
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
        }
    }

    #[test]
    fn mistakes_are_told_without_passwords() {
        for (text, expected) in [
            ("rubygems.org", "does not begin"),
            ("https://me:secret@rubygems.org", "credentials"),
            ("https://rubygems.org/?a=b", "query"),
            ("https://rubygems.org/#b", "fragment"),
        ] {
            let error = text.parse::<UpstreamUrl>().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    }
}
