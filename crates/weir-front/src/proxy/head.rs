//! What a request's head must be, and what a worker sees of it.
//!
//! hyper has parsed it: a message has one meaning only, and what the worker gets is written anew
//! from that. What is refused here is what could mean something else to a worker than to us.

mod forwarded;

use hyper::header::{
    self, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Uri, Version};

pub(super) use self::forwarded::{Forwarded, RequestStart};

/// Headers that end at the next hop (RFC 9110, section 7.6.1), besides those that `Connection`
/// names.
const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Why a request is not passed on.
#[derive(Debug)]
pub(super) struct HeadRefusal {
    pub(super) status: StatusCode,
    pub(super) text: &'static str,
}

/// Whom a request means.
#[derive(Debug)]
pub(super) struct Target {
    /// As it was sent, with its port; empty if there is none (HTTP/1.0).
    host: HeaderValue,
}

impl Target {
    pub(super) fn of(request: &Parts) -> Result<Self, HeadRefusal> {
        let refuse = |status, text| Err(HeadRefusal { status, text });
        if request.method == Method::CONNECT {
            return refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "this is no forward proxy: no CONNECT\n",
            );
        }
        let mut codings = request.headers.get_all(TRANSFER_ENCODING).iter();
        let coding = codings.next();
        if codings.next().is_some()
            || coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
        {
            return refuse(
                StatusCode::NOT_IMPLEMENTED,
                "the only transfer coding here is chunked\n",
            );
        }
        let mut hosts = request.headers.get_all(HOST).iter();
        let host = hosts.next();
        if hosts.next().is_some() {
            return refuse(StatusCode::BAD_REQUEST, "a request has one Host\n");
        }
        // The target's own host goes first (RFC 9112, section 3.2.2).
        let host = match (request.uri.authority(), host) {
            (Some(authority), _) => HeaderValue::from_str(authority.as_str()).ok(),
            (None, Some(host)) => Some(host.clone()),
            (None, None) if request.version == Version::HTTP_10 => {
                Some(HeaderValue::from_static(""))
            }
            (None, None) => return refuse(StatusCode::BAD_REQUEST, "the request has no Host\n"),
        };
        match host {
            Some(host) if is_host(host.as_bytes()) => Ok(Self { host }),
            _ => refuse(StatusCode::BAD_REQUEST, "the request's Host is malformed\n"),
        }
    }

    pub(super) fn host(&self) -> &str {
        // It was checked: these are characters of a host.
        self.host.to_str().unwrap_or_default()
    }
}

/// The characters of a name or an address with a port (RFC 3986, section 3.2.2); no user.
fn is_host(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(byte))
}

/// Makes of the head what a worker gets.
pub(super) fn rewrite(parts: &mut Parts, target: &Target, forwarded: Forwarded) {
    // hyper writes the framing that the body has.
    remove_hop_by_hop(&mut parts.headers);
    // hyper has said "100 Continue" by the time there is a body to pass on.
    parts.headers.remove(EXPECT);
    remove_ambiguous(&mut parts.headers);
    parts.version = Version::HTTP_11;
    if parts.uri.authority().is_some() {
        let path = parts.uri.path_and_query().cloned();
        parts.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        parts.headers.insert(HOST, target.host.clone());
    }
    if parts.headers.get(HOST).is_none() {
        parts.headers.insert(HOST, target.host.clone());
    }
    forwarded.add(&mut parts.headers, &target.host);
}

/// Removes what is meant for one connection only.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    // Most messages have none, and looking is cheaper than removing.
    if !headers.keys().any(|name| HOP_BY_HOP.contains(name)) {
        return;
    }
    if let Some(connection) = headers.remove(CONNECTION) {
        let names = connection.to_str().unwrap_or_default().split(',');
        for name in names.filter_map(|name| HeaderName::try_from(name.trim()).ok()) {
            // Those that give a message its meaning end nowhere.
            if ![HOST, CONTENT_LENGTH, header::AUTHORIZATION, header::COOKIE].contains(&name) {
                headers.remove(name);
            }
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// `X_Forwarded_For` and `X-Forwarded-For` are one to CGI and its heirs, WSGI and Rack: who could
/// send the first could forge the second.
fn remove_ambiguous(headers: &mut HeaderMap) {
    if headers.keys().any(|name| name.as_str().contains('_')) {
        let names: Vec<_> =
            headers.keys().filter(|name| name.as_str().contains('_')).cloned().collect();
        for name in names {
            headers.remove(name);
        }
    }
}
