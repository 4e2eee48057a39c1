//! The URL of a server: `http://HOST[:PORT][/PATH][?QUERY]`, or the same with `https`.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::header::HeaderValue;
use rustls_pki_types::ServerName;

/// A URL for requests. It is displayed without its query, which may contain a token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl {
    /// Scheme and authority.
    origin: Box<str>,
    /// The host to connect to: a name or an address, without brackets.
    host: Box<str>,
    pub(super) port: u16,
    /// With `https`, the name that the certificate must have.
    pub(super) tls: Option<ServerName<'static>>,
    /// The value of the header `Host`.
    authority: HeaderValue,
    /// Path and query.
    target: Uri,
}

/// Why a text is no URL for requests. The message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpUrlError {
    /// The scheme is missing, or is not one of the two.
    #[error(
        "{0:?} does not begin with http:// or https://; write for example \"https://example.org\""
    )]
    Scheme(String),
    /// The text is not shown, because it may contain a password.
    #[error(
        "the URL contains a user name or a password; remove them, and use the setting for \
         credentials (mirrors) or headers (webhooks) instead"
    )]
    UserInfo,
    /// There is a `#`, which is never sent to a server.
    #[error("{0:?} has a fragment, which is never sent; leave out the # and what is behind it")]
    Fragment(String),
    /// There is no host, or one that cannot be looked up.
    #[error(
        "{0:?} names no host; write a host name (international ones in their xn-- form), an IPv4 \
         address, or an IPv6 address in brackets, for example \"http://[::1]:3000\""
    )]
    Host(String),
    /// The port is not a number from 1 to 65535.
    #[error("{0:?} has no valid port; ports go from 1 to 65535")]
    Port(String),
    /// Another error of syntax.
    #[error(
        "{0:?} is not a valid URL; spaces and characters beyond ASCII in its path are written as \
         %20 and the like"
    )]
    Malformed(String),
    /// A redirect from https to http: encrypted data must not be sent in the clear.
    #[error("{0:?} is not encrypted, but the URL that leads there is")]
    Downgrade(String),
}

impl HttpUrl {
    /// Returns the host to connect to: a name or an address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the value of the header `Host`.
    #[must_use]
    pub const fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    /// Returns path and query.
    #[must_use]
    pub const fn target(&self) -> &Uri {
        &self.target
    }

    /// Returns whether the scheme is `https`.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Sets the port if the text names none.
    #[must_use]
    pub fn or_port(self, port: u16) -> Self {
        let has_port = self.origin.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        if has_port { self } else { Self { port, ..self } }
    }

    /// Returns the URL of another path and query on the same server.
    ///
    /// # Errors
    /// Fails if the target has characters that no URL has.
    pub fn with_target(&self, target: &str) -> Result<Self, HttpUrlError> {
        let malformed = || HttpUrlError::Malformed(format!("{}{target}", self.origin));
        Ok(Self { target: parse_target(target).ok_or_else(malformed)?, ..self.clone() })
    }

    /// Resolves the header `Location` of a response.
    ///
    /// # Errors
    /// Fails if it is no valid URL, or leads from https to http.
    pub fn redirected(&self, location: &str) -> Result<Self, HttpUrlError> {
        let location = location.split('#').next().unwrap_or_default();
        if location.starts_with('/') && !location.starts_with("//") {
            return self.with_target(location);
        }
        let next: Self = location.parse()?;
        match self.is_encrypted() && !next.is_encrypted() {
            true => Err(HttpUrlError::Downgrade(location.to_owned())),
            false => Ok(next),
        }
    }

    /// Returns whether scheme, host and port are the same.
    #[must_use]
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.host == other.host
            && self.port == other.port
            && self.is_encrypted() == other.is_encrypted()
    }
}

impl FromStr for HttpUrl {
    type Err = HttpUrlError;

    fn from_str(text: &str) -> Result<Self, HttpUrlError> {
        let (is_tls, rest) = split_scheme(text)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(HttpUrlError::UserInfo);
        }
        if text.contains('#') {
            return Err(HttpUrlError::Fragment(text.to_owned()));
        }
        let (host, port) = parse_authority(authority, if is_tls { 443 } else { 80 }, text)?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| HttpUrlError::Host(text.to_owned()))?;
        let malformed = || HttpUrlError::Malformed(text.to_owned());
        Ok(Self {
            origin: format!("{}://{authority}", if is_tls { "https" } else { "http" }).into(),
            host: Box::from(host),
            port,
            tls: is_tls.then_some(name),
            authority: HeaderValue::from_str(authority).map_err(|_| malformed())?,
            target: parse_target(&rest[authority.len()..]).ok_or_else(malformed)?,
        })
    }
}

fn split_scheme(text: &str) -> Result<(bool, &str), HttpUrlError> {
    let scheme = || HttpUrlError::Scheme(without_user_info(text));
    let (name, rest) = text.split_once("://").ok_or_else(scheme)?;
    match name.to_ascii_lowercase().as_str() {
        "http" => Ok((false, rest)),
        "https" => Ok((true, rest)),
        _ => Err(scheme()),
    }
}

/// Returns the text without user name and password, for errors.
fn without_user_info(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("..@{rest}"),
        None => text.to_owned(),
    }
}

fn parse_authority<'a>(
    authority: &'a str,
    default_port: u16,
    text: &str,
) -> Result<(&'a str, u16), HttpUrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed
            .split_once(']')
            .filter(|(host, _)| host.contains(':'))
            .ok_or_else(|| HttpUrlError::Host(text.to_owned()))?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if port.is_empty() {
        return Ok((host, default_port));
    }
    let port = port.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = port.and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    Ok((host, port.ok_or_else(|| HttpUrlError::Port(text.to_owned()))?))
}

fn parse_target(path_and_query: &str) -> Option<Uri> {
    let absolute = match path_and_query {
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    // Rejects characters that are invalid in a request's first line; the parser rejects URLs that
    // are too long.
    let is_plain = absolute.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then(|| absolute.parse().ok()).flatten()
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self.target.path() {
            "/" => "",
            path => path,
        };
        let query = if self.target.query().is_some() { "?.." } else { "" };
        write!(formatter, "{}{path}{query}", self.origin)
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[cfg(test)]
mod tests;
