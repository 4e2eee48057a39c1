//! Where an endpoint is: `http://HOST[:PORT][/PATH][?QUERY]`, or the same with `https`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use hyper::Uri;
use hyper::header::HeaderValue;
use rustls_pki_types::ServerName;

/// A URL that requests can go to. Shown without its query, which may hold a token.
#[derive(Clone)]
pub struct EndpointUrl {
    text: Box<str>,
    /// What connections go to: a name or an address, without brackets.
    pub(super) host: Box<str>,
    pub(super) port: u16,
    /// With `https`: whom the certificate must name.
    pub(super) tls: Option<ServerName<'static>>,
    /// The header `Host`.
    authority: HeaderValue,
    /// Path and query.
    target: Uri,
}

/// Why a text is no endpoint's URL. Says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointUrlError {
    /// Neither of the two schemes, or none.
    #[error(
        "{0:?} does not begin with http:// or https://; write for example \
         \"https://example.org/hooks\""
    )]
    Scheme(String),
    /// The text is not repeated, because of what may be in it.
    #[error(
        "the URL holds a user name or a password; leave them out and put a header Authorization \
         into headers"
    )]
    UserInfo,
    /// `#..` never reaches a server.
    #[error("{0:?} has a fragment, which is never sent; leave out the # and what is behind it")]
    Fragment(String),
    /// No host, or none that could be looked up.
    #[error(
        "{0:?} names no host; write a host name (international ones in their xn-- form), an IPv4 \
         address, or an IPv6 address in brackets, for example \"http://[::1]:3000/hooks\""
    )]
    Host(String),
    /// Not a number from 1 to 65535.
    #[error("{0:?} has no valid port; ports go from 1 to 65535")]
    Port(String),
    /// Something else that no URL has.
    #[error(
        "{0:?} is not a valid URL; spaces and characters beyond ASCII in its path are written as \
         %20 and the like"
    )]
    Malformed(String),
}

impl EndpointUrl {
    /// What connections go to: a name or an address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The header `Host`.
    #[must_use]
    pub fn authority(&self) -> &HeaderValue {
        &self.authority
    }

    /// Path and query: what a request asks for.
    #[must_use]
    pub fn target(&self) -> &Uri {
        &self.target
    }
}

impl FromStr for EndpointUrl {
    type Err = EndpointUrlError;

    fn from_str(text: &str) -> Result<Self, EndpointUrlError> {
        let (is_tls, rest) = split_scheme(text)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(EndpointUrlError::UserInfo);
        }
        if text.contains('#') {
            return Err(EndpointUrlError::Fragment(text.to_owned()));
        }
        let (host, port) = parse_authority(authority, if is_tls { 443 } else { 80 }, text)?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| EndpointUrlError::Host(text.to_owned()))?;
        let malformed = || EndpointUrlError::Malformed(text.to_owned());
        Ok(Self {
            text: Box::from(text),
            host: Box::from(host),
            port,
            tls: is_tls.then_some(name),
            authority: HeaderValue::from_str(authority).map_err(|_| malformed())?,
            target: parse_target(&rest[authority.len()..]).ok_or_else(malformed)?,
        })
    }
}

fn split_scheme(text: &str) -> Result<(bool, &str), EndpointUrlError> {
    let scheme = || EndpointUrlError::Scheme(without_user_info(text));
    let (name, rest) = text.split_once("://").ok_or_else(scheme)?;
    match name.to_ascii_lowercase().as_str() {
        "http" => Ok((false, rest)),
        "https" => Ok((true, rest)),
        _ => Err(scheme()),
    }
}

/// What may be shown of a text that can't be parsed.
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
) -> Result<(&'a str, u16), EndpointUrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed
            .split_once(']')
            .filter(|(host, _)| host.contains(':'))
            .ok_or_else(|| EndpointUrlError::Host(text.to_owned()))?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if port.is_empty() {
        return Ok((host, default_port));
    }
    let port = port.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = port.and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    Ok((host, port.ok_or_else(|| EndpointUrlError::Port(text.to_owned()))?))
}

fn parse_target(path_and_query: &str) -> Option<Uri> {
    let absolute = match path_and_query {
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    // Longer ones, and characters that a request's first line can't hold, are refused here.
    let is_plain = absolute.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then(|| absolute.parse().ok()).flatten()
}

impl PartialEq for EndpointUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for EndpointUrl {}

impl Hash for EndpointUrl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.split_once('?') {
            Some((shown, _)) => write!(formatter, "{shown}?.."),
            None => formatter.write_str(&self.text),
        }
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

#[cfg(test)]
mod tests;
