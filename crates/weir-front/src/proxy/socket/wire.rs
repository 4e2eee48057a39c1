//! An answer's bytes on a raw socket, which hyper does not write there.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Buf;
use hyper::body::Body as _;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use weir_net::server::Body;

use crate::upstream::{Answer, AnswerReader};

/// Status and header fields as they are.
pub(super) async fn write_head<S>(socket: &mut S, answer: &Answer) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    socket.write_all(&head_bytes(answer.status, &answer.headers)).await
}

/// An answer that is no upgrade; the connection ends with it, and so does a body without a length.
/// `patience`: how long the client may take no byte, and the worker say none.
pub(super) async fn pass_on<S>(
    socket: &mut S,
    answer: Answer,
    mut reader: AnswerReader,
    patience: Duration,
) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let mut headers = answer.headers;
    close_after(&mut headers);
    timeout(patience, socket.write_all(&head_bytes(answer.status, &headers))).await??;
    while let Some(data) = timeout(patience, poll_fn(|context| reader.poll_data(context))).await? {
        let mut data = data.map_err(io::Error::other)?;
        while !data.is_empty() {
            let count = timeout(patience, socket.write(&data)).await??;
            data.advance(count);
        }
    }
    socket.shutdown().await
}

/// An answer of our own, of which all is at hand; the connection ends with it.
pub(super) async fn send<S>(socket: &mut S, answer: Response<Body>) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let (mut parts, mut body) = answer.into_parts();
    if let Some(length) = body.size_hint().exact() {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    close_after(&mut parts.headers);
    socket.write_all(&head_bytes(parts.status, &parts.headers)).await?;
    let mut body = Pin::new(&mut body);
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        if let Ok(data) = frame.map_err(io::Error::other)?.into_data() {
            socket.write_all(&data).await?;
        }
    }
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
