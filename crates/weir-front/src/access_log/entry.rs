//! The log entry of a request, written when its response ends or its client disconnects.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::{HOST, HeaderMap, HeaderName, REFERER, USER_AGENT};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Response, StatusCode, Version};
use weir_base::clock::{Clock, Timestamp};
use weir_net::server::{BoxError, RawTarget, ResponseBody};

use super::AccessLog;
use super::line::AccessLogRecord;

/// The most bytes that are logged of a header field or target of a client.
const FIELD_BYTES_MAX: usize = 2 << 10;
/// The status logged when the client disconnects before the response. Nonstandard, but usual in
/// the logs of web servers.
const CLIENT_GONE: u16 = 499;

/// The timing and the worker of an exchange; an extension of its response.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    pub(crate) queue: Duration,
    pub(crate) service: Duration,
    pub(crate) worker: String,
}

/// The log entry of a request in progress.
pub(crate) struct PendingLogEntry {
    log: AccessLog,
    clock: Clock,
    since: Timestamp,
    /// None: written.
    record: Option<Box<AccessLogRecord>>,
}

impl PendingLogEntry {
    pub(crate) fn new(log: &AccessLog, clock: &Clock, request: &Parts) -> Self {
        let since = clock.now();
        let (uri, headers) = (&request.uri, &request.headers);
        let authority = || uri.authority().map(|authority| authority.as_str().to_owned());
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        let record = AccessLogRecord {
            time: jiff::Timestamp::from_microsecond(micros).unwrap_or_default(),
            method: truncate(request.method.as_str()),
            host: header_text(headers, &HOST).or_else(authority).unwrap_or_default(),
            target: logged_target(request),
            protocol: protocol(request.version),
            referer: header_text(headers, &REFERER),
            user_agent: header_text(headers, &USER_AGENT),
            ..AccessLogRecord::default()
        };
        Self { log: log.clone(), clock: clock.clone(), since, record: Some(Box::new(record)) }
    }

    pub(crate) fn set_client(&mut self, client: Option<std::net::IpAddr>) {
        self.update(|record| record.client = client);
    }

    pub(crate) fn set_app(&mut self, app: &str, request_id: Option<&[u8]>) {
        self.update(|record| {
            record.app = Some(app.to_owned());
            record.request_id = request_id.map(|id| String::from_utf8_lossy(id).into_owned());
        });
    }

    pub(crate) fn set_timing(&mut self, timing: Timing) {
        self.update(|record| {
            record.queue_seconds = Some(timing.queue.as_secs_f64());
            record.service_seconds = Some(timing.service.as_secs_f64());
            record.worker = Some(timing.worker);
        });
    }

    fn update(&mut self, change: impl FnOnce(&mut AccessLogRecord)) {
        if let Some(record) = &mut self.record {
            change(record);
        }
    }

    /// Writes the entry when the body of the response ends or is aborted.
    pub(crate) fn log_when_done(
        mut self: Box<Self>,
        mut response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        if let Some(timing) = response.extensions_mut().remove::<Timing>() {
            self.set_timing(timing);
        }
        let status = response.status().as_u16();
        self.update(|record| record.status = status);
        // The response to a HEAD request is complete although its body is dropped.
        let wants_head = self.record.as_ref().is_some_and(|record| record.method == "HEAD");
        response.map(|body| {
            let is_complete = body.is_end_stream() || wants_head;
            ResponseBody::new(Followed { body, entry: Some(self), is_complete })
        })
    }

    /// Writes the entry of a response that hyper does not send: that of a WebSocket or upgrade.
    pub(crate) fn finish_upgrade(&mut self, status: StatusCode) {
        self.update(|record| record.status = status.as_u16());
        self.write(true);
    }

    fn write(&mut self, is_complete: bool) {
        let Some(mut record) = self.record.take() else { return };
        record.seconds = self.clock.now().since(self.since).as_secs_f64();
        record.complete = is_complete;
        self.log.add(record);
    }
}

impl Drop for PendingLogEntry {
    fn drop(&mut self) {
        self.update(|record| record.status = CLIENT_GONE);
        self.write(false);
    }
}

impl fmt::Debug for PendingLogEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PendingLogEntry").finish_non_exhaustive()
    }
}

/// Returns the target of the request as the client sent it, cut to the limit.
fn logged_target(request: &Parts) -> String {
    match request.extensions.get::<RawTarget>() {
        Some(raw) => truncate(&raw.to_string()),
        None => truncate(request.uri.path_and_query().map_or("/", PathAndQuery::as_str)),
    }
}

fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(truncate(&String::from_utf8_lossy(value.as_bytes())))
}

fn truncate(text: &str) -> String {
    text[..text.floor_char_boundary(FIELD_BYTES_MAX)].to_owned()
}

const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// A response body that writes its log entry when it ends.
struct Followed {
    body: ResponseBody,
    /// None: written.
    entry: Option<Box<PendingLogEntry>>,
    /// True once the end of the body was reached.
    is_complete: bool,
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(mut entry) = self.entry.take() {
            entry.write(self.is_complete);
        }
    }
}

impl HttpBody for Followed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                if let Some(entry) = &mut self.entry {
                    entry.update(|record| record.bytes += bytes);
                }
                self.is_complete = self.body.is_end_stream();
            }
            Poll::Ready(None) => self.is_complete = true,
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
