//! An answer's bytes on a raw socket, which hyper does not write there.

use std::future::poll_fn;
use std::io;

use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::proxy::answer;
use crate::upstream::{Answer, AnswerReader};

/// Status and header fields as they are.
pub(super) async fn write_head<S>(socket: &mut S, answer: &Answer) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    socket.write_all(&head_bytes(answer.status, &answer.headers)).await
}

/// An answer that is no upgrade; the connection ends with it, and so does a body without a length.
pub(super) async fn pass_on<S>(
    socket: &mut S,
    answer: Answer,
    mut reader: AnswerReader,
) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let mut headers = answer.headers;
    close_after(&mut headers);
    socket.write_all(&head_bytes(answer.status, &headers)).await?;
    while let Some(data) = poll_fn(|context| reader.poll_data(context)).await {
        socket.write_all(&data.map_err(io::Error::other)?).await?;
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
