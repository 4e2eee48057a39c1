//! Where an upstream is: `http://HOST[:PORT][/PATH]`, or the same with `https`.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;
use hyper::header::HeaderValue;
use rustls_pki_types::ServerName;

/// An address that requests can go to.
#[derive(Clone)]
pub struct UpstreamUrl {
    /// Scheme and authority, as they were written.
    origin: Box<str>,
    /// What connections go to: a name or an address, without brackets.
    pub(super) host: Box<str>,
    pub(super) port: u16,
    /// With `https`: whom the certificate must name.
    pub(super) tls: Option<ServerName<'static>>,
    /// The header `Host`.
    pub(super) authority: HeaderValue,
    /// Path and query.
    pub(super) target: Uri,
}

/// Why a text is no upstream's address. Says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamUrlError {
    /// Neither of the two schemes, or none.
    #[error(
        "{0:?} does not begin with http:// or https://; write for example \"https://rubygems.org\""
    )]
    Scheme(String),
    /// The text is not repeated, because of what may be in it.
    #[error(
        "the address holds a user name or a password; leave them out and set \
         gems.mirror.upstreams.credentials"
    )]
    UserInfo,
    /// A query belongs to one request.
    #[error("{0:?} has a query or a fragment; write the address that /versions lies under")]
    Query(String),
    /// No host, or none that could be looked up.
    #[error("{0:?} names no host")]
    Host(String),
    /// Not a number from 1 to 65535.
    #[error("{0:?} has no valid port; ports go from 1 to 65535")]
    Port(String),
    /// Something else that no address has.
    #[error("{0:?} is no valid address; spaces and the like are written as %20")]
    Malformed(String),
    /// What was encrypted must not go on in the clear.
    #[error("{0:?} is not encrypted, as the upstream itself is")]
    Downgrade(String),
}

impl UpstreamUrl {
    /// Whether it begins with `https`.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The same server, at a path behind its own.
    pub(super) fn with_target(&self, path: &str) -> Result<Self, UpstreamUrlError> {
        let base = self.target.path().trim_end_matches('/');
        self.at(&format!("{base}{path}"))
    }

    fn at(&self, target: &str) -> Result<Self, UpstreamUrlError> {
        let target = parse_target(target);
        let target = target.ok_or_else(|| UpstreamUrlError::Malformed(self.to_string()))?;
        Ok(Self { target, ..self.clone() })
    }

    /// Where `Location` leads.
    pub(super) fn redirected(&self, location: &str) -> Result<Self, UpstreamUrlError> {
        let location = location.split('#').next().unwrap_or_default();
        if location.starts_with('/') && !location.starts_with("//") {
            return self.at(location);
        }
        let next = parse(location)?;
        match self.tls.is_some() && next.tls.is_none() {
            true => Err(UpstreamUrlError::Downgrade(location.to_owned())),
            false => Ok(next),
        }
    }

    pub(super) fn is_same_host(&self, other: &Self) -> bool {
        self.host == other.host
            && self.port == other.port
            && self.tls.is_some() == other.tls.is_some()
    }
}

impl FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<Self, UpstreamUrlError> {
        let url = parse(text)?;
        match text.contains(['?', '#']) {
            true => Err(UpstreamUrlError::Query(text.to_owned())),
            false => Ok(url),
        }
    }
}

fn parse(text: &str) -> Result<UpstreamUrl, UpstreamUrlError> {
    let (is_tls, rest) = split_scheme(text)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(UpstreamUrlError::UserInfo);
    }
    let (host, port) = parse_authority(authority, if is_tls { 443 } else { 80 }, text)?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| UpstreamUrlError::Host(text.to_owned()))?;
    let malformed = || UpstreamUrlError::Malformed(text.to_owned());
    Ok(UpstreamUrl {
        origin: format!("{}://{authority}", if is_tls { "https" } else { "http" }).into(),
        host: Box::from(host),
        port,
        tls: is_tls.then_some(name),
        authority: HeaderValue::from_str(authority).map_err(|_| malformed())?,
        target: parse_target(&rest[authority.len()..]).ok_or_else(malformed)?,
    })
}

fn split_scheme(text: &str) -> Result<(bool, &str), UpstreamUrlError> {
    let scheme =
        || UpstreamUrlError::Scheme(text.rsplit('@').next().unwrap_or_default().to_owned());
    let (name, rest) = text.split_once("://").ok_or_else(scheme)?;
    match name.to_ascii_lowercase().as_str() {
        "http" => Ok((false, rest)),
        "https" => Ok((true, rest)),
        _ => Err(scheme()),
    }
}

fn parse_authority<'a>(
    authority: &'a str,
    default_port: u16,
    text: &str,
) -> Result<(&'a str, u16), UpstreamUrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed
            .split_once(']')
            .filter(|(host, _)| host.contains(':'))
            .ok_or_else(|| UpstreamUrlError::Host(text.to_owned()))?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if port.is_empty() {
        return Ok((host, default_port));
    }
    let port = port.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = port.and_then(|port| port.parse().ok()).filter(|port| *port != 0);
    Ok((host, port.ok_or_else(|| UpstreamUrlError::Port(text.to_owned()))?))
}

fn parse_target(path_and_query: &str) -> Option<Uri> {
    let absolute = match path_and_query {
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    let is_plain = absolute.bytes().all(|byte| byte.is_ascii_graphic());
    is_plain.then(|| absolute.parse().ok()).flatten()
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.origin, self.target.path().trim_end_matches('/'))
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

    fn url(text: &str) -> UpstreamUrl {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_may_have_a_path() {
        for (text, path, expected) in [
            ("https://rubygems.org", "/versions", "/versions"),
            ("https://rubygems.org/", "/versions", "/versions"),
            ("http://[::1]:7422/private/", "/info/a%2Db", "/private/info/a%2Db"),
        ] {
            assert_eq!(url(text).with_target(path).unwrap().target.to_string(), expected);
        }
        let local = url("http://[::1]:7422/private/");
        assert_eq!((&*local.host, local.port, local.tls.is_none()), ("::1", 7_422, true));
        assert_eq!(local.to_string(), "http://[::1]:7422/private");
    }

    #[test]
    fn mistakes_are_told_without_passwords() {
        for (text, expected) in [
            ("rubygems.org", "does not begin"),
            ("https://me:secret@rubygems.org", "credentials"),
            ("me:secret@rubygems.org", "does not begin"),
            ("https://rubygems.org/?a=b", "query"),
            ("https://", "no host"),
            ("https://a:0", "port"),
            ("https://a/b c", "%20"),
        ] {
            let error = text.parse::<UpstreamUrl>().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_redirect_stays_encrypted() {
        let from = url("https://rubygems.org/x");
        let to = |location: &str| from.redirected(location);
        assert_eq!(to("/gems/a.gem?b").unwrap().target.to_string(), "/gems/a.gem?b");
        let other = to("https://cdn.example/a.gem#b").unwrap();
        assert_eq!((&*other.host, other.target.path()), ("cdn.example", "/a.gem"));
        assert!(!other.is_same_host(&from) && to("/y").unwrap().is_same_host(&from));
        assert!(matches!(to("http://rubygems.org/"), Err(UpstreamUrlError::Downgrade(_))));
        assert!(to("//cdn.example/a").is_err() && to("ftp://a").is_err() && to("").is_err());
    }
}
