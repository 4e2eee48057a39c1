//! What a request's head must be, and what a worker sees of it.
//!
//! hyper has parsed it: a message has one meaning only, and what the worker gets is written anew
//! from that. What is refused here is what could mean something else to a worker than to us.

use hyper::header::{
    self, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Uri, Version};
use weir_base::clock::Timestamp;
use weir_net::server::Peer;

/// Headers that end at the next hop (RFC 9110, section 7.6.1), besides those that `Connection`
/// names.
const HOP_BY_HOP: [HeaderName; 5] = [
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const X_REQUEST_START: HeaderName = HeaderName::from_static("x-request-start");

/// A longer one is replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;

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
    pub(super) host: String,
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
            (Some(authority), _) => authority.as_str(),
            (None, Some(host)) => host.to_str().unwrap_or("\0"),
            (None, None) if request.version == Version::HTTP_10 => "",
            (None, None) => return refuse(StatusCode::BAD_REQUEST, "the request has no Host\n"),
        };
        if !is_host(host) {
            return refuse(StatusCode::BAD_REQUEST, "the request's Host is malformed\n");
        }
        Ok(Self { host: host.to_owned() })
    }
}

/// The characters of a name or an address with a port (RFC 3986, section 3.2.2); no user.
fn is_host(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+,;=".contains(&byte))
}

/// Makes of the head what a worker gets.
pub(super) fn rewrite(parts: &mut Parts, target: &Target, peer: Peer, now: Timestamp) {
    let is_chunked = parts.headers.contains_key(TRANSFER_ENCODING);
    remove_hop_by_hop(&mut parts.headers);
    if is_chunked {
        parts.headers.remove(CONTENT_LENGTH);
    }
    // hyper has said "100 Continue" by the time there is a body to pass on.
    parts.headers.remove(EXPECT);
    remove_ambiguous(&mut parts.headers);
    parts.version = Version::HTTP_11;
    if parts.uri.authority().is_some() {
        let path = parts.uri.path_and_query().cloned();
        parts.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
    if let Ok(host) = HeaderValue::from_str(&target.host) {
        parts.headers.insert(HOST, host);
    }
    add_forwarded(&mut parts.headers, target, peer);
    add_request_id(&mut parts.headers);
    parts.headers.insert(X_REQUEST_START, request_start(now));
}

/// Removes what is meant for one connection only.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
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

/// What is said of the client is ours alone: what a client says of itself is no evidence.
fn add_forwarded(headers: &mut HeaderMap, target: &Target, peer: Peer) {
    headers.remove(header::FORWARDED);
    let address = peer.address.map(|address| address.to_string());
    match address.and_then(|address| HeaderValue::try_from(address).ok()) {
        Some(address) => headers.insert(X_FORWARDED_FOR, address),
        None => headers.remove(X_FORWARDED_FOR),
    };
    let protocol = if peer.is_tls { "https" } else { "http" };
    headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(protocol));
    match HeaderValue::from_str(&target.host) {
        Ok(host) => headers.insert(X_FORWARDED_HOST, host),
        Err(_) => headers.remove(X_FORWARDED_HOST),
    };
}

/// One that a client sent is kept if it is short and plain.
fn add_request_id(headers: &mut HeaderMap) {
    let is_plain = |value: &HeaderValue| {
        let bytes = value.as_bytes();
        (1..=REQUEST_ID_BYTES_MAX).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte))
    };
    if !headers.get(X_REQUEST_ID).is_some_and(is_plain) {
        let id = format!("{:032x}", fastrand::u128(..));
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.insert(X_REQUEST_ID, id);
        }
    }
}

/// `t=` and seconds with three decimals, the form that nginx's `t=${msec}` made common.
fn request_start(now: Timestamp) -> HeaderValue {
    let millis = now.as_millis();
    let text = format!("t={}.{:03}", millis / 1_000, millis % 1_000);
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("t=0"))
}
