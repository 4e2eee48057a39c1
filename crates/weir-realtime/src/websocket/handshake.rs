//! The server's side of the opening handshake (RFC 6455, 4.2). Accepts a request head that an HTTP
//! parser has read, or rejects it with a status and a message.
//!
//! Extensions that the client offers are declined by omitting them from the response.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use thiserror::Error;

/// The constant of RFC 6455, 1.3, by which a WebSocket server derives its response to a key.
const ACCEPT_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Bytes of a key before base64.
const KEY_BYTES: usize = 16;
/// Bytes of a SHA-1 digest in base64.
const ACCEPT_BYTES: usize = 28;

/// The parts of a request that the handshake reads, independent of the HTTP parser.
pub trait RequestHead {
    /// Returns the method as sent.
    fn method(&self) -> &str;

    /// Returns the digit after `HTTP/1.`.
    fn http_minor_version(&self) -> u8;

    /// Returns the values of all header fields with this name, in order. Names are compared
    /// case-insensitively.
    fn header_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]>;
}

/// A request that can become a WebSocket connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgrade<'a> {
    accept: [u8; ACCEPT_BYTES],
    /// The subprotocol that both sides support.
    pub protocol: Option<&'a str>,
    /// The origin of the page that opens the connection, sent by browsers. The caller checks it,
    /// and returns [`HandshakeError::OriginNotAllowed`] to reject it.
    pub origin: Option<&'a str>,
}

/// Why a request can't become a WebSocket connection.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HandshakeError {
    /// The method is not GET: 405.
    #[error("a WebSocket is opened with GET")]
    MethodNotGet,
    /// The request is HTTP/1.0, which has no upgrade: 505.
    #[error("a WebSocket is opened with HTTP/1.1")]
    HttpVersion,
    /// The request does not ask for a WebSocket: 426.
    #[error("this address speaks WebSocket: send Connection: Upgrade and Upgrade: websocket")]
    NotAnUpgrade,
    /// The client uses a draft or a later version of the protocol: 426.
    #[error("only version 13 of WebSocket is spoken here (Sec-WebSocket-Version)")]
    WebSocketVersion,
    /// The key is missing, repeated, or not 16 bytes in base64: 400.
    #[error("Sec-WebSocket-Key must be there once and hold 16 bytes in base64")]
    Key,
    /// The host is missing or repeated: 400.
    #[error("Host must be there once")]
    Host,
    /// The request has a body, whose bytes could be taken for frames: 400.
    #[error("a request that opens a WebSocket has no body")]
    Body,
    /// The list of subprotocols is invalid: 400.
    #[error("Sec-WebSocket-Protocol must be a list of names")]
    Protocol,
    /// The origin is repeated or not ASCII: 400.
    #[error("Origin must be there at most once, in ASCII")]
    OriginMalformed,
    /// The caller does not allow this origin: 403.
    #[error("this origin is not allowed")]
    OriginNotAllowed,
}

/// Checks a request. Chooses the first subprotocol of the client's list that is among `protocols`.
///
/// # Errors
/// Returns the first rule that the request violates.
pub fn accept<'a>(
    head: &'a impl RequestHead,
    protocols: &[&str],
) -> Result<Upgrade<'a>, HandshakeError> {
    if head.method() != "GET" {
        return Err(HandshakeError::MethodNotGet);
    }
    if head.http_minor_version() < 1 {
        return Err(HandshakeError::HttpVersion);
    }
    if !has_element(head, "upgrade", "websocket") || !has_element(head, "connection", "upgrade") {
        return Err(HandshakeError::NotAnUpgrade);
    }
    if only(head, "sec-websocket-version") != Some(b"13") {
        return Err(HandshakeError::WebSocketVersion);
    }
    only(head, "host").ok_or(HandshakeError::Host)?;
    if has_body(head) {
        return Err(HandshakeError::Body);
    }
    let key =
        only(head, "sec-websocket-key").filter(|key| is_key(key)).ok_or(HandshakeError::Key)?;
    let protocol = choose_protocol(head, protocols)?;
    Ok(Upgrade { accept: accept_key(key), protocol, origin: origin(head)? })
}

/// Returns the value of `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key`. The client checks it.
#[must_use]
pub fn accept_key(key: &[u8]) -> [u8; ACCEPT_BYTES] {
    let digest = Sha1::new().chain_update(key).chain_update(ACCEPT_GUID).finalize();
    let mut accept = [0; ACCEPT_BYTES];
    let length = STANDARD.encode_slice(digest, &mut accept).expect("20 bytes are 28 in base64");
    debug_assert_eq!(length, ACCEPT_BYTES);
    accept
}

impl Upgrade<'_> {
    /// Appends the response, after which the connection carries frames.
    pub fn write_response(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Accept: ",
        );
        output.extend_from_slice(&self.accept);
        if let Some(protocol) = self.protocol {
            output.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
            output.extend_from_slice(protocol.as_bytes());
        }
        output.extend_from_slice(b"\r\n\r\n");
    }
}

impl HandshakeError {
    /// Returns the HTTP status of the response.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status_line().0
    }

    /// Returns the header fields that the status requires.
    #[must_use]
    pub const fn headers(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::MethodNotGet => &[("Allow", "GET")],
            Self::NotAnUpgrade | Self::WebSocketVersion => {
                &[("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
            }
            _ => &[],
        }
    }

    /// Appends the response, after which the connection must be closed.
    pub fn write_response(&self, output: &mut Vec<u8>) {
        let (status, reason_phrase) = self.status_line();
        let body = format!("{self}\n");
        // RFC 9110, 7.8: a sender of Upgrade must also name it in Connection.
        let connection = if status == 426 { "upgrade, close" } else { "close" };
        let mut head = format!("HTTP/1.1 {status} {reason_phrase}\r\nConnection: {connection}\r\n");
        for (name, value) in self.headers() {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(
            head,
            "Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        output.extend_from_slice(head.as_bytes());
    }

    const fn status_line(&self) -> (u16, &'static str) {
        match self {
            Self::MethodNotGet => (405, "Method Not Allowed"),
            Self::HttpVersion => (505, "HTTP Version Not Supported"),
            Self::NotAnUpgrade | Self::WebSocketVersion => (426, "Upgrade Required"),
            Self::OriginNotAllowed => (403, "Forbidden"),
            Self::Key | Self::Host | Self::Body | Self::Protocol | Self::OriginMalformed => {
                (400, "Bad Request")
            }
        }
    }
}

/// Returns the field's value if the field occurs exactly once.
fn only<'a>(head: &'a impl RequestHead, name: &'a str) -> Option<&'a [u8]> {
    let mut values = head.header_values(name);
    let value = values.next()?;
    values.next().is_none().then(|| value.trim_ascii())
}

/// Returns the elements of a field that is a list, and may occur several times.
fn list_elements<'a>(head: &'a impl RequestHead, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    head.header_values(name)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

fn has_element(head: &impl RequestHead, name: &str, element: &str) -> bool {
    list_elements(head, name).any(|candidate| candidate.eq_ignore_ascii_case(element.as_bytes()))
}

fn has_body(head: &impl RequestHead) -> bool {
    head.header_values("transfer-encoding").next().is_some()
        || head.header_values("content-length").any(|length| length.trim_ascii() != b"0")
}

fn is_key(key: &[u8]) -> bool {
    // The decoder requires room for whole groups of three bytes.
    let mut decoded = [0; KEY_BYTES + 2];
    STANDARD.decode_slice(key, &mut decoded) == Ok(KEY_BYTES)
}

fn choose_protocol<'a>(
    head: &'a impl RequestHead,
    supported: &[&str],
) -> Result<Option<&'a str>, HandshakeError> {
    let mut chosen = None;
    for name in list_elements(head, "sec-websocket-protocol") {
        let name = std::str::from_utf8(name).ok().filter(|name| is_token(name));
        let name = name.ok_or(HandshakeError::Protocol)?;
        if chosen.is_none() && supported.contains(&name) {
            chosen = Some(name);
        }
    }
    Ok(chosen)
}

/// Checks the syntax of a token (RFC 9110, 5.6.2).
fn is_token(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn origin(head: &impl RequestHead) -> Result<Option<&str>, HandshakeError> {
    if head.header_values("origin").next().is_none() {
        return Ok(None);
    }
    let origin = only(head, "origin").ok_or(HandshakeError::OriginMalformed)?;
    let origin = std::str::from_utf8(origin).ok().filter(|origin| origin.is_ascii());
    origin.map(Some).ok_or(HandshakeError::OriginMalformed)
}

#[cfg(test)]
mod tests;
