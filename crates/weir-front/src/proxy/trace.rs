//! The span of a request that is traced. It ends with the body of the response.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::http::request::Parts;
use weir_net::server::{BoxError, ResponseBody};
use weir_traces::context::TRACEPARENT_BYTES;
use weir_traces::{Span, SpanKind, TraceContext, Tracer};

use crate::access_log::Timing;

/// Why a span has no response.
const CLIENT_GONE: &str = "the client disconnected before the response";

/// The span of a request in progress.
#[derive(Debug)]
pub(super) struct RequestSpan {
    span: Span,
    has_response: bool,
}

/// The trace context for the worker, in place of the client's.
#[derive(Clone, Copy, Debug)]
pub(super) struct ForwardedTrace {
    pub(super) traceparent: [u8; TRACEPARENT_BYTES],
    /// False: the trace begins here, so the client's `tracestate` is of another one.
    pub(super) keeps_state: bool,
}

impl RequestSpan {
    /// Begins the span of a request, if it is traced. `is_trusted`: its own trace context counts.
    pub(super) fn begin(tracer: &Tracer, request: &Parts, is_trusted: bool) -> Option<Box<Self>> {
        let caller = if is_trusted { TraceContext::of_headers(&request.headers) } else { None };
        let mut span = tracer.start("request", SpanKind::Server, caller)?;
        span.set("http.request.method", request.method.to_string());
        // Without the query, which may contain secrets.
        span.set("url.path", request.uri.path().to_owned());
        Some(Box::new(Self { span, has_response: false }))
    }

    /// Notes the app, and names the span after it.
    pub(super) fn set_app(&mut self, app: &str, request: &Parts, is_tls: bool) {
        self.span.rename(format!("{} {app}", request.method));
        self.span.set("weir.app", app.to_owned());
        self.span.set("url.scheme", if is_tls { "https" } else { "http" });
    }

    /// Returns the context for the worker.
    pub(super) fn forwarded(&self) -> ForwardedTrace {
        let traceparent = self.span.context().to_traceparent();
        ForwardedTrace { traceparent, keeps_state: self.span.has_parent() }
    }

    /// Notes the response; the span ends with its body.
    pub(super) fn follow(
        mut self: Box<Self>,
        response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        self.has_response = true;
        let status = response.status();
        self.span.set("http.response.status_code", u64::from(status.as_u16()));
        if status.is_server_error() {
            self.span.fail(status.to_string());
        }
        if let Some(timing) = response.extensions().get::<Timing>() {
            self.span.set("weir.queue_seconds", timing.queue.as_secs_f64());
            self.span.set("weir.service_seconds", timing.service.as_secs_f64());
            self.span.set("weir.worker", timing.worker.clone());
        }
        response.map(|body| ResponseBody::new(TracedBody { body, _span: self }))
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        if !self.has_response {
            self.span.fail(CLIENT_GONE);
        }
    }
}

/// A body whose end is that of the span.
struct TracedBody {
    body: ResponseBody,
    _span: Box<RequestSpan>,
}

impl HttpBody for TracedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
