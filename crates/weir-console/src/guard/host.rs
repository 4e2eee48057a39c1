//! The host names that the console accepts, and the origins from which it accepts forms.
//!
//! A page on `evil.example` whose name is changed to point at 127.0.0.1 (DNS rebinding) sends its
//! own name in `Host`; a page of another site that posts a form is identified by `Origin` and
//! `Sec-Fetch-Site`. Plain IP addresses are safe, since they involve no name lookup.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method};

/// Why a request was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostError {
    #[error("the request names no host")]
    NoHost,
    #[error(
        "the console is not served under the name {0:?}: add it to console.hosts, or use an IP address"
    )]
    UnknownHost(String),
    #[error("the request comes from another site ({0}); open the console itself and try again")]
    OtherSite(String),
}

/// Checks the request's host against `hosts` and, if the method changes something, its origin.
pub(crate) fn check(
    method: &Method,
    headers: &HeaderMap,
    hosts: &[String],
) -> Result<(), HostError> {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).ok_or(HostError::NoHost)?;
    let name = without_port(host);
    if !is_address(name) && !is_loopback_name(name) && !is_listed(name, hosts) {
        return Err(HostError::UnknownHost(name.to_owned()));
    }
    if method.is_safe() { Ok(()) } else { check_origin(headers, host) }
}

fn check_origin(headers: &HeaderMap, host: &str) -> Result<(), HostError> {
    if let Some(site) = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok())
        && !matches!(site, "same-origin" | "none")
    {
        return Err(HostError::OtherSite(site.to_owned()));
    }
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let origin = origin.to_str().unwrap_or("an unreadable origin");
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    match authority {
        Some(authority) if authority.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(HostError::OtherSite(origin.to_owned())),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_address(name: &str) -> bool {
    let bracketed = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bracketed {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4()),
    }
}

/// Returns whether the name is under `localhost`: RFC 6761 makes these loopback, and browsers do
/// not look them up.
fn is_loopback_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn is_listed(name: &str, hosts: &[String]) -> bool {
    hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn get(host: &str) -> Result<(), HostError> {
        check(&Method::GET, &headers(&[("host", host)]), &["weir.example".into()])
    }

    #[test]
    fn loopback_addresses_and_listed_hosts_are_accepted() {
        for host in [
            "localhost",
            "LOCALHOST:7420",
            "127.0.0.1:7420",
            "[::1]:7420",
            "10.0.0.5:80",
            "weir.example:7420",
            "Weir.Example",
            "app.localhost:1",
        ] {
            assert_eq!(get(host), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_rejected() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evillocalhost",
            "127.0.0.1.evil.example",
            "weir.example.evil",
            "",
            "::1",
            "[::1].evil",
            "evil.example:7420",
        ] {
            assert!(matches!(get(host), Err(HostError::UnknownHost(_))), "{host}");
        }
        assert_eq!(check(&Method::GET, &HeaderMap::new(), &[]), Err(HostError::NoHost));
    }

    #[test]
    fn a_form_from_another_site_is_rejected() {
        let post = |extra: &[(&'static str, &str)]| {
            let mut all = headers(&[("host", "127.0.0.1:7420")]);
            all.extend(headers(extra));
            check(&Method::POST, &all, &[])
        };
        assert_eq!(post(&[]), Ok(()), "programs send neither header");
        assert_eq!(post(&[("origin", "http://127.0.0.1:7420")]), Ok(()));
        assert_eq!(post(&[("sec-fetch-site", "same-origin")]), Ok(()));
        for origin in ["http://evil.example", "null", "http://127.0.0.1:7421", "file://"] {
            assert!(post(&[("origin", origin)]).is_err(), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(post(&[("sec-fetch-site", site)]).is_err(), "{site}");
        }
    }
}
