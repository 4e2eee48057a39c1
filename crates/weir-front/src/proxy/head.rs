//! What a request's head must be, and what a worker sees of it.
//!
//! hyper has parsed it: a message has one meaning only, and what the worker gets is written anew
//! from that. What is refused here is what could mean something else to a worker than to us.

mod forwarded;

use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, StatusCode, Version};

pub(super) use self::forwarded::{Forwarded, RequestId, RequestStart};

/// Fields that give a message its meaning, whatever `Connection` says.
const END_NOWHERE: [HeaderName; 4] = [HOST, CONTENT_LENGTH, AUTHORIZATION, COOKIE];

/// Most heads that a worker gets are shorter.
const HEAD_BYTES_USUAL: usize = 1 << 10;

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
        // The form of CONNECT's targets (RFC 9112, section 3.2.3).
        if request.uri.scheme().is_none() && request.uri.authority().is_some() {
            return refuse(StatusCode::BAD_REQUEST, "the request's target is malformed\n");
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

/// What a worker is told of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyHead<'a> {
    None,
    Length(u64),
    Chunked,
    /// The connection is to become something else, of this protocol.
    Upgrade(&'a HeaderValue),
}

/// The bytes of the head that a worker gets: written anew, so it has one meaning.
pub(super) fn write(
    parts: &Parts,
    target: &Target,
    forwarded: &Forwarded,
    body: BodyHead<'_>,
) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES_USUAL);
    let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    head.extend_from_slice(parts.method.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(path.as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    write_field(&mut head, "host", target.host.as_bytes());
    let ends_here = named_by_connection(&parts.headers);
    for (name, value) in &parts.headers {
        if !is_ours(name.as_str()) && !ends_here.contains(name) && name != COOKIE {
            write_field(&mut head, name.as_str(), value.as_bytes());
        }
    }
    write_cookies(&mut head, &parts.headers);
    forwarded.write(&mut head, target);
    write_body_head(&mut head, &parts.method, body);
    head.extend_from_slice(b"\r\n");
    head
}

fn write_body_head(head: &mut Vec<u8>, method: &Method, body: BodyHead<'_>) {
    let expects_body = [Method::POST, Method::PUT, Method::PATCH].contains(method);
    match body {
        BodyHead::None if expects_body => write_field(head, "content-length", b"0"),
        BodyHead::None => {}
        BodyHead::Length(length) => {
            write_field(head, "content-length", length.to_string().as_bytes());
        }
        BodyHead::Chunked => write_field(head, "transfer-encoding", b"chunked"),
        BodyHead::Upgrade(protocol) => {
            write_field(head, "connection", b"upgrade");
            write_field(head, "upgrade", protocol.as_bytes());
        }
    }
}

/// HTTP/2 may have parted them; here there is one field (RFC 9113, section 8.2.3).
fn write_cookies(head: &mut Vec<u8>, headers: &HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    let Some(first) = cookies.next() else { return };
    head.extend_from_slice(b"cookie: ");
    head.extend_from_slice(first.as_bytes());
    for cookie in cookies {
        head.extend_from_slice(b"; ");
        head.extend_from_slice(cookie.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
}

fn write_field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// Fields that no worker gets from a client: they end here, or we write them.
fn is_ours(name: &str) -> bool {
    match name {
        "host" | "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer"
        | "transfer-encoding" | "upgrade" | "content-length" | "http2-settings" => true,
        // hyper has said "100 Continue" by the time there is a body to pass on.
        "expect" => true,
        // What a client says of itself and of the way here is no evidence.
        "forwarded" | "x-real-ip" | "x-request-start" | "x-request-id" => true,
        _ => name.starts_with("x-forwarded-") || is_ambiguous(name),
    }
}

/// `X_Forwarded_For` and `X-Forwarded-For` are one to CGI and its heirs, WSGI and Rack: who could
/// send the first could forge the second.
fn is_ambiguous(name: &str) -> bool {
    name.as_bytes().contains(&b'_')
}

/// Fields that the sender means for the next hop alone. Those that give a message its meaning end
/// nowhere.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let mut names = Vec::new();
    for value in headers.get_all(CONNECTION) {
        for token in value.as_bytes().split(|byte| *byte == b',') {
            let token = token.trim_ascii();
            let is_plain = [&b"close"[..], b"keep-alive", b"upgrade", b""]
                .iter()
                .any(|plain| token.eq_ignore_ascii_case(plain));
            if is_plain {
                continue;
            }
            names.extend(
                HeaderName::from_bytes(token).ok().filter(|name| !END_NOWHERE.contains(name)),
            );
        }
    }
    names
}
