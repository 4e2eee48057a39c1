//! The collector: one request with a batch of spans, and its response.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Method, StatusCode, Uri};
use weir_base::node::hostname;
use weir_net::http_client::{
    ClientSettings, HttpClient, HttpRequest, HttpUrl, Reach, Server, TimeLimit,
};

use crate::otlp;
use crate::settings::{TraceLimits, TraceSettings};
use crate::span::SpanRecord;

/// The path of traces, behind that of the endpoint.
const PATH: &str = "/v1/traces";
/// Bytes that are read of a response.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Why a batch was not accepted.
#[derive(Debug)]
pub(super) enum ExportError {
    /// It may be accepted later, at the earliest after `retry_after`.
    Unavailable {
        why: String,
        retry_after: Option<Duration>,
    },
    Rejected(String),
}

impl ExportError {
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Unavailable { why, .. } | Self::Rejected(why) => why,
        }
    }
}

/// The collector of `traces.endpoint`.
#[derive(Debug)]
pub(super) struct Collector {
    client: HttpClient,
    endpoint: HttpUrl,
    target: Uri,
    headers: HeaderMap,
    /// Of one request, connecting included.
    time_limit: TimeLimit,
    resource: Vec<(&'static str, String)>,
}

impl Collector {
    /// Returns None without an endpoint.
    pub(super) fn new(settings: &TraceSettings) -> Option<Self> {
        let endpoint = settings.endpoint.clone()?;
        let client_settings = ClientSettings {
            trust: settings.trust.clone(),
            ca: Some(&TraceSettings::CA),
            ..ClientSettings::default()
        };
        let server = Server::Web { url: endpoint.clone(), nearest: Reach::Special };
        // Checked when the settings were read.
        let mut headers = settings.extra_headers().unwrap_or_default();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static("weir"));
        Some(Self {
            client: HttpClient::new(server, Arc::new(client_settings)),
            target: target_of(&endpoint),
            endpoint,
            headers,
            time_limit: TimeLimit::new(settings.limits.timeout, &TraceLimits::TIMEOUT),
            resource: resource(settings),
        })
    }

    pub(super) const fn endpoint(&self) -> &HttpUrl {
        &self.endpoint
    }

    /// Creates the request with a batch of spans.
    #[expect(clippy::vec_box, reason = "spans come boxed from the queue")]
    pub(super) fn request(&self, batch: Vec<Box<SpanRecord>>) -> HttpRequest {
        let body = otlp::encode(&self.resource, batch);
        let mut request = HttpRequest::new(Method::POST, self.target.clone(), body);
        request.headers = self.headers.clone();
        request
    }

    /// Sends a request. Returns how many of its spans the collector rejected.
    pub(super) async fn send(&self, mut request: HttpRequest) -> Result<u64, ExportError> {
        request.deadline = Some(self.time_limit.from_now());
        let unavailable = |why: String| ExportError::Unavailable { why, retry_after: None };
        let mut response =
            self.client.send(request).await.map_err(|error| unavailable(error.to_string()))?;
        let status = response.status();
        let retry_after = response.header(&RETRY_AFTER).and_then(|text| text.parse().ok());
        let body = response.read_to_end(RESPONSE_BYTES_MAX).await;
        if status.is_success() {
            // Accepted, whether or not the rest of the response arrives.
            let (rejected, why) = otlp::rejected_spans(&body.unwrap_or_default());
            if rejected > 0 {
                tracing::debug!(rejected, why, "the collector rejected spans");
            }
            return Ok(rejected);
        }
        let why = format!("the response was {status}");
        match is_retryable(status) {
            true => Err(ExportError::Unavailable {
                why,
                retry_after: retry_after.map(Duration::from_secs),
            }),
            false => Err(ExportError::Rejected(why)),
        }
    }
}

/// The statuses after which a request may be sent again (OTLP specification, "Retryable response codes").
const fn is_retryable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// Returns the target of requests. An endpoint that already names it is left as it is.
fn target_of(endpoint: &HttpUrl) -> Uri {
    let path = endpoint.target().path().trim_end_matches('/');
    let path = match path.ends_with(PATH) {
        true => path.to_owned(),
        false => format!("{path}{PATH}"),
    };
    let target = match endpoint.target().query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    // Parts of a target that was parsed, and letters.
    target.parse().unwrap_or_else(|_| Uri::from_static(PATH))
}

/// Describes this process (OpenTelemetry's semantic conventions for resources).
fn resource(settings: &TraceSettings) -> Vec<(&'static str, String)> {
    let host = hostname();
    vec![
        ("service.name", settings.service_name.clone()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", format!("{host}:{}", std::process::id())),
        ("host.name", host),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_traces_follows_that_of_the_endpoint() {
        for (endpoint, target) in [
            ("http://127.0.0.1:4318", "/v1/traces"),
            ("http://127.0.0.1:4318/", "/v1/traces"),
            ("https://example.org/otlp", "/otlp/v1/traces"),
            ("https://example.org/otlp/?token=1", "/otlp/v1/traces?token=1"),
            ("http://127.0.0.1:4318/v1/traces", "/v1/traces"),
        ] {
            assert_eq!(target_of(&endpoint.parse().unwrap()), target, "{endpoint}");
        }
    }
}
