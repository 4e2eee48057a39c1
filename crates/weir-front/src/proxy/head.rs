//! Checks a request's head and writes the head for the worker.
//!
//! hyper has parsed the head into one meaning, and the head for the worker is written from that.
//! Rejected are requests that a worker could understand differently.

mod forwarded;

use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, StatusCode, Version};
use weir_net::server::RawTarget;

use self::forwarded::X_REQUEST_ID;
pub(super) use self::forwarded::{Forwarded, RequestId, RequestStart};

/// Fields that are forwarded even if `Connection` names them, because they define the message.
const END_NOWHERE: [HeaderName; 4] = [HOST, CONTENT_LENGTH, AUTHORIZATION, COOKIE];

/// The initial capacity; most heads are shorter.
const HEAD_BYTES_USUAL: usize = 1 << 10;

/// Why a request is not forwarded.
#[derive(Debug)]
pub(super) struct HeadRefusal {
    pub(super) status: StatusCode,
    pub(super) text: &'static str,
}

/// The target of a request, and what its fields mean for the proxy.
#[derive(Debug)]
pub(super) struct Target {
    /// The host as it was sent, with its port. Empty if there is none (HTTP/1.0).
    host: HeaderValue,
    /// Fields that `Connection` names: they are not forwarded.
    ends_here: Vec<HeaderName>,
    has_cookies: bool,
    pub(super) has_request_id: bool,
}

impl Target {
    pub(super) fn new(request: &Parts) -> Result<Self, HeadRefusal> {
        let reject = |status, text| Err(HeadRefusal { status, text });
        if request.method == Method::CONNECT {
            return reject(
                StatusCode::METHOD_NOT_ALLOWED,
                "this is no forward proxy: no CONNECT\n",
            );
        }
        // As nginx does: the response would reveal what proxies in front have added.
        if request.method == Method::TRACE {
            return reject(StatusCode::METHOD_NOT_ALLOWED, "there is no TRACE here\n");
        }
        // Only OPTIONS may concern the server as a whole (RFC 9112, section 3.2.4).
        if request.uri.path() == "*" && request.method != Method::OPTIONS {
            return reject(StatusCode::BAD_REQUEST, "the request's target is malformed\n");
        }
        // This form is for CONNECT only (RFC 9112, section 3.2.3).
        if request.uri.scheme().is_none() && request.uri.authority().is_some() {
            return reject(StatusCode::BAD_REQUEST, "the request's target is malformed\n");
        }
        let RequestFields { coding, host, ends_here, has_cookies, has_request_id } =
            RequestFields::new(&request.headers);
        match coding {
            FieldCount::Never => {}
            FieldCount::Once(coding) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {}
            FieldCount::Once(_) | FieldCount::Often => {
                return reject(
                    StatusCode::NOT_IMPLEMENTED,
                    "the only transfer coding here is chunked\n",
                );
            }
        }
        // The target's own host has precedence (RFC 9112, section 3.2.2).
        let host = match (request.uri.authority(), host) {
            (_, FieldCount::Often) => {
                return reject(StatusCode::BAD_REQUEST, "a request has one Host\n");
            }
            (Some(authority), _) => HeaderValue::from_str(authority.as_str()).ok(),
            (None, FieldCount::Once(host)) => Some(host.clone()),
            (None, FieldCount::Never) if request.version == Version::HTTP_10 => {
                Some(HeaderValue::from_static(""))
            }
            (None, FieldCount::Never) => {
                return reject(StatusCode::BAD_REQUEST, "the request has no Host\n");
            }
        };
        match host {
            Some(host) if is_host(host.as_bytes()) => {
                Ok(Self { host, ends_here, has_cookies, has_request_id })
            }
            _ => reject(StatusCode::BAD_REQUEST, "the request's Host is malformed\n"),
        }
    }

    pub(super) fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }
}

/// How often a field occurred.
enum FieldCount<'a> {
    Never,
    Once(&'a HeaderValue),
    Often,
}

impl<'a> FieldCount<'a> {
    fn add(&mut self, value: &'a HeaderValue) {
        *self = if matches!(self, Self::Never) { Self::Once(value) } else { Self::Often };
    }
}

/// The fields that matter to the proxy, found in one pass, which is faster than a look-up of each.
struct RequestFields<'a> {
    coding: FieldCount<'a>,
    host: FieldCount<'a>,
    ends_here: Vec<HeaderName>,
    has_cookies: bool,
    has_request_id: bool,
}

impl<'a> RequestFields<'a> {
    fn new(headers: &'a HeaderMap) -> Self {
        let mut fields = Self {
            coding: FieldCount::Never,
            host: FieldCount::Never,
            ends_here: Vec::new(),
            has_cookies: false,
            has_request_id: false,
        };
        for (name, value) in headers {
            if name == HOST {
                fields.host.add(value);
            } else if name == TRANSFER_ENCODING {
                fields.coding.add(value);
            } else if name == CONNECTION {
                name_hop_fields(value, &mut fields.ends_here);
            } else if name == COOKIE {
                fields.has_cookies = true;
            } else if name == X_REQUEST_ID {
                fields.has_request_id = true;
            }
        }
        fields
    }
}

/// The characters of a host with a port (RFC 3986, section 3.2.2), without a user.
const HOST_CHARACTERS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128_u8 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let others = b"-._~:[]%!$&'()*+,;=";
    let mut index = 0;
    while index < others.len() {
        table[others[index] as usize] = true;
        index += 1;
    }
    table
};

fn is_host(text: &[u8]) -> bool {
    text.iter().all(|byte| HOST_CHARACTERS[usize::from(*byte)])
}

/// The fields about the body in the head for the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyHead<'a> {
    None,
    Length(u64),
    Chunked,
    /// No body: the request asks for an upgrade to this protocol.
    Upgrade(&'a HeaderValue),
}

/// Returns the head for the worker.
pub(super) fn write(
    parts: &Parts,
    target: &Target,
    forwarded: &Forwarded,
    body: BodyHead<'_>,
) -> Vec<u8> {
    let mut head = write_start(parts, target, forwarded);
    write_end(&mut head, &parts.method, body);
    head
}

/// Returns the head for the worker up to the fields about the body.
pub(super) fn write_start(parts: &Parts, target: &Target, forwarded: &Forwarded) -> Vec<u8> {
    let mut head = Vec::with_capacity(HEAD_BYTES_USUAL);
    head.extend_from_slice(parts.method.as_str().as_bytes());
    head.push(b' ');
    write_target(&mut head, parts);
    head.extend_from_slice(b" HTTP/1.1");
    write_known(&mut head, "\r\nhost: ", target.host());
    for (name, value) in &parts.headers {
        let is_replaced = is_ours(name.as_str()) || forwarded.replaces(name);
        if !is_replaced && !target.ends_here.contains(name) && name != COOKIE {
            write_field(&mut head, name.as_str(), value.as_bytes());
        }
    }
    if target.has_cookies {
        write_cookies(&mut head, &parts.headers);
    }
    forwarded.write(&mut head, target);
    head
}

/// Appends path and query as the client sent them.
fn write_target(head: &mut Vec<u8>, parts: &Parts) {
    let raw = parts.extensions.get().map(RawTarget::as_bytes);
    let parsed = || parts.uri.path_and_query().map_or("/", PathAndQuery::as_str).as_bytes();
    let target = raw.unwrap_or_else(parsed);
    if target.starts_with(b"?") {
        // An empty path is equivalent to `/` (RFC 9110, section 4.2.3).
        head.push(b'/');
    }
    head.extend_from_slice(target);
}

/// Appends the fields about the body and the end of the head.
pub(super) fn write_end(head: &mut Vec<u8>, method: &Method, body: BodyHead<'_>) {
    write_body_head(head, method, body);
    head.extend_from_slice(b"\r\n\r\n");
}

fn write_body_head(head: &mut Vec<u8>, method: &Method, body: BodyHead<'_>) {
    let expects_body = [Method::POST, Method::PUT, Method::PATCH].contains(method);
    match body {
        BodyHead::None if expects_body => write_known(head, "\r\ncontent-length: ", b"0"),
        BodyHead::None => {}
        BodyHead::Length(length) => {
            write_known(head, "\r\ncontent-length: ", length.to_string().as_bytes());
        }
        BodyHead::Chunked => write_known(head, "\r\ntransfer-encoding: ", b"chunked"),
        BodyHead::Upgrade(protocol) => {
            write_known(head, "\r\nconnection: ", b"upgrade");
            write_known(head, "\r\nupgrade: ", protocol.as_bytes());
        }
    }
}

/// Appends one Cookie field. HTTP/2 may have split it (RFC 9113, section 8.2.3).
fn write_cookies(head: &mut Vec<u8>, headers: &HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    let Some(first) = cookies.next() else { return };
    write_known(head, "\r\ncookie: ", first.as_bytes());
    for cookie in cookies {
        head.extend_from_slice(b"; ");
        head.extend_from_slice(cookie.as_bytes());
    }
}

/// Appends a field with the line break before it, not after it.
fn write_field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(b"\r\n");
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
}

/// Appends a field whose `start` includes the name. Inlined, so that constants are copied without a
/// call.
#[inline(always)]
fn write_known(head: &mut Vec<u8>, start: &'static str, value: &[u8]) {
    head.extend_from_slice(start.as_bytes());
    head.extend_from_slice(value);
}

/// Returns whether a client's field is not forwarded: it is hop-by-hop, or the proxy writes it.
fn is_ours(name: &str) -> bool {
    match name {
        "host" | "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer"
        | "transfer-encoding" | "upgrade" | "content-length" | "http2-settings" => true,
        // hyper sends "100 Continue" itself.
        "expect" => true,
        // Clients could forge these.
        "forwarded" | "x-real-ip" | "x-request-start" | "x-request-id" => true,
        _ => name.starts_with("x-forwarded-") || is_ambiguous(name),
    }
}

/// Returns whether the name has an underscore. CGI, WSGI and Rack map `X_Forwarded_For` and
/// `X-Forwarded-For` to the same variable, so one could forge the other.
fn is_ambiguous(name: &str) -> bool {
    name.as_bytes().contains(&b'_')
}

/// Adds the fields that a value of `Connection` names, except those that define the message.
fn name_hop_fields(value: &HeaderValue, names: &mut Vec<HeaderName>) {
    for token in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        let is_plain = [&b"close"[..], b"keep-alive", b"upgrade", b""]
            .iter()
            .any(|plain| token.eq_ignore_ascii_case(plain));
        if !is_plain {
            let name = HeaderName::from_bytes(token).ok();
            names.extend(name.filter(|name| !END_NOWHERE.contains(name)));
        }
    }
}
