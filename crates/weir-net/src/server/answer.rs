//! Responses that are not from a service: written without waiting, then the connection is closed in a way
//! that lets the client read them.

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

/// A status and a sentence.
#[derive(Debug)]
pub(super) struct ErrorResponse {
    pub(super) status: StatusCode,
    pub(super) text: Cow<'static, str>,
}

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Self {
        Self { status, text: text.into() }
    }

    /// 503: nothing is wrong with the request.
    pub(super) fn overloaded(text: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// As it is sent.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let Self { status, text } = self;
        let retry = match *status {
            StatusCode::SERVICE_UNAVAILABLE => format!("Retry-After: {RETRY_AFTER_SECONDS}\r\n"),
            _ => String::new(),
        };
        let length = text.len() + 1;
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {length}\r\n{retry}Connection: close\r\n\r\n{text}\n"
        );
        answer.into_bytes()
    }

    /// As hyper writes it.
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

    /// Writes the response and closes. Closing a socket with unread bytes in it resets the
    /// connection, and the client might never see the response: so it gets a moment to hang up first.
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

/// Discards what the client sends until it disconnects, for a limited time.
pub(super) async fn linger<S: ConnectionService>(
    core: &CoreContext<S>,
    mut stream: ConnectionStream,
) {
    let Ok(_place) = core.refusals() else {
        return core.metrics().limit_hit(HttpServerLimit::RefusalsMax);
    };
    let hung_up = async { while discard(core, &mut stream).await {} };
    if timeout(core.limits().linger_timeout, hung_up).await.is_err() {
        core.metrics().limit_hit(HttpServerLimit::LingerTimeout);
    }
}

/// After a response to a request whose body was not read to its end: the same, but for as long as
/// the client continues with the body. Many clients send it completely before they read anything.
pub(super) async fn outlast_body<S: ConnectionService>(
    core: &CoreContext<S>,
    mut stream: ConnectionStream,
) {
    let Ok(_place) = core.refusals() else {
        return core.metrics().limit_hit(HttpServerLimit::RefusalsMax);
    };
    let linger = core.limits().linger_timeout;
    let silence = async {
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
        limit = silence => limit,
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
