//! Writes a response to a raw socket, without hyper.

use std::io;
use std::time::Duration;

use hyper::body::Body as _;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::http::response::Parts;
use hyper::{Method, StatusCode};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use weir_net::server::ResponseBody;

use crate::upstream::Framed;

/// Sets the fields about the body's end and the connection's. Chunks are safe, because a client
/// that requests an upgrade speaks HTTP/1.1.
pub(super) fn frame(parts: &mut Parts, body: &ResponseBody, method: &Method) -> Framed {
    parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let has_no_body = *method == Method::HEAD
        || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&parts.status);
    match body.size_hint().exact() {
        _ if has_no_body => Framed::Length,
        Some(length) => {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
            Framed::Length
        }
        None => {
            parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            Framed::Chunked
        }
    }
}

pub(super) fn head_bytes(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let reason = status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// Writes all bytes. Fails if the peer reads nothing for `time_limit`.
pub(super) async fn write<S>(socket: &mut S, bytes: &[u8], time_limit: Duration) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let mut remaining = bytes;
    while !remaining.is_empty() {
        match timeout(time_limit, socket.write(remaining)).await?? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => remaining = &remaining[count..],
        }
    }
    Ok(())
}
