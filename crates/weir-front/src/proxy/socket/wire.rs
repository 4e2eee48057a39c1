//! An answer's bytes on a raw socket, which hyper does not write there.

use std::io;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::{Response, StatusCode};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::proxy::{answer, head};

/// Status and header fields as they are.
pub(super) async fn write_head<S, B>(socket: &mut S, response: &Response<B>) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    socket.write_all(&head_bytes(response.status(), response.headers())).await
}

/// An answer that is no upgrade; the connection ends with it.
pub(super) async fn pass_on<S>(socket: &mut S, response: Response<Incoming>) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let (mut parts, mut body) = response.into_parts();
    head::remove_hop_by_hop(&mut parts.headers);
    // Its end is the connection's, if it has no length.
    parts.headers.remove(TRANSFER_ENCODING);
    close_after(&mut parts.headers);
    socket.write_all(&head_bytes(parts.status, &parts.headers)).await?;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
            socket.write_all(&data).await?;
        }
    }
    socket.shutdown().await
}

/// An answer of our own; the connection ends with it.
pub(super) async fn refuse<S>(
    socket: &mut S,
    status: StatusCode,
    text: &'static str,
) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let (mut parts, _) = answer::text(status, text).into_parts();
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
    answer::ask_to_retry(status, &mut parts.headers);
    close_after(&mut parts.headers);
    socket.write_all(&head_bytes(parts.status, &parts.headers)).await?;
    socket.write_all(text.as_bytes()).await?;
    socket.shutdown().await
}

fn close_after(headers: &mut HeaderMap) {
    headers.insert(hyper::header::CONNECTION, HeaderValue::from_static("close"));
}

fn head_bytes(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
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
