//! Responses of the server itself, written without waiting. The connection is closed afterwards in
//! a way that lets the client read them.

use std::borrow::Cow;
use std::future::poll_fn;

use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use tokio::time::{sleep, timeout};

use super::runtime::CoreContext;
use super::{ConnectionService, ConnectionStream, ResponseBody};
use crate::metrics::HttpServerLimit;

/// Retry-After of a rejected client: long enough for a peak to pass.
const RETRY_AFTER_SECONDS: u32 = 2;

/// A response with a status and a sentence.
#[derive(Debug)]
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) text: Cow<'static, str>,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into() }
    }

    /// Creates a 503, for requests that are valid.
    pub(super) fn overloaded(text: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// Returns the bytes for a raw socket.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let Self { status, text } = self;
        let retry = match *status {
            StatusCode::SERVICE_UNAVAILABLE => format!("Retry-After: {RETRY_AFTER_SECONDS}\r\n"),
            _ => String::new(),
        };
        let length = text.len() + 1;
        let response = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {length}\r\n{retry}Connection: close\r\n\r\n{text}\n"
        );
        response.into_bytes()
    }

    /// Converts it for hyper.
    pub(super) fn into_response(self) -> Response<ResponseBody> {
        let mut text = self.text.into_owned();
        text.push('\n');
        let mut response = Response::new(ResponseBody::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
        }
        response
    }

    /// Writes the response and closes the connection. If a socket is closed with unread bytes, the
    /// kernel resets the connection and may discard the response, so the client gets time to close
    /// first.
    pub(super) async fn send_and_close<S: ConnectionService>(
        self,
        core: &CoreContext<S>,
        mut stream: ConnectionStream,
    ) {
        if stream.try_write(&self.to_bytes()).is_ok() && stream.shutdown().is_ok() {
            linger(core, stream).await;
        }
    }
}

/// Discards what the client sends until it disconnects, for `linger_timeout` at most.
pub(super) async fn linger<S: ConnectionService>(
    core: &CoreContext<S>,
    mut stream: ConnectionStream,
) {
    let Ok(_permit) = core.lingering_permit() else {
        return core.metrics().limit_hit(HttpServerLimit::RefusalsMax);
    };
    let disconnected = async { while discard(core, &mut stream).await {} };
    if timeout(core.limits().linger_timeout, disconnected).await.is_err() {
        core.metrics().limit_hit(HttpServerLimit::LingerTimeout);
    }
}

/// Discards the rest of a request's body after the response, for as long as the client sends, up to
/// `discard_timeout`. Many clients send the whole body before they read the response.
pub(super) async fn discard_body<S: ConnectionService>(
    core: &CoreContext<S>,
    mut stream: ConnectionStream,
) {
    let Ok(_permit) = core.lingering_permit() else {
        return core.metrics().limit_hit(HttpServerLimit::RefusalsMax);
    };
    let linger = core.limits().linger_timeout;
    let until_silent = async {
        loop {
            match timeout(linger, discard(core, &mut stream)).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => return Some(HttpServerLimit::LingerTimeout),
            }
        }
    };
    let stopped = async {
        core.stopping().cancelled().await;
        sleep(linger).await;
    };
    let limit = tokio::select! {
        limit = until_silent => limit,
        () = sleep(core.limits().discard_timeout) => Some(HttpServerLimit::DiscardTimeout),
        () = stopped => Some(HttpServerLimit::LingerTimeout),
    };
    limit.into_iter().for_each(|limit| core.metrics().limit_hit(limit));
}

async fn discard<S: ConnectionService>(
    core: &CoreContext<S>,
    stream: &mut ConnectionStream,
) -> bool {
    poll_fn(|context| core.poll_discard(context, stream)).await
}
