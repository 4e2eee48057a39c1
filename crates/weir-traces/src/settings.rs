//! `[traces]`.

use std::time::Duration;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use weir_base::secret::Secret;
use weir_net::http_client::{HttpUrl, ReadTrust, Trust};
use weir_settings::{SECOND, Section, TableReader};

const MINUTE: Duration = Duration::from_secs(60);

/// Where spans are sent, and what is traced.
#[derive(Clone, Debug, Section)]
#[section(restart, path = "traces", check = Self::check_headers)]
pub struct TraceSettings {
    /// The collector that receives spans over OTLP/HTTP (protobuf): http:// or https://, without
    /// /v1/traces, which Weir adds. None: nothing is traced.
    #[setting(optional_parsed)]
    pub endpoint: Option<HttpUrl>,
    /// Share of the traces that begin at Weir: 0.01 is every hundredth. Requests, jobs and events
    /// with a trace context (traceparent) follow the decision of their caller instead.
    #[setting(fraction, default = 0.01)]
    pub sample: f64,
    /// Continue the traces of all clients of the front. Their flag then decides what is traced, so
    /// set it only where clients are not the public. False: only those of front.trusted_proxies.
    pub follow_clients: bool,
    /// Added to each request to the collector: `{ Authorization = { env = "NAME" } }`; a value may
    /// also be written here as a text.
    #[setting(secrets)]
    pub headers: Vec<(String, Secret)>,
    /// The name of Weir in traces (service.name).
    #[setting(default = "weir".to_owned())]
    pub service_name: String,
    /// PEM file with certificate authorities of your own, trusted besides the public ones.
    #[setting(trust, key = "ca", default = Trust::public())]
    pub trust: Trust,
    #[setting(section)]
    pub limits: TraceLimits,
}

/// Headers that Weir sets itself.
const RESERVED: [HeaderName; 5] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
];

/// Why a header of `traces.headers` can't be sent. Never contains its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceHeaderError {
    #[error("{0:?} can't be a header's name; write letters, digits and -")]
    Name(String),
    #[error(
        "the value of the header {0} has characters that no header can hold, such as a line break"
    )]
    Value(String),
    #[error("the header {0} is set by Weir; leave it out")]
    Reserved(String),
}

impl TraceSettings {
    /// Returns the headers that are added to each request.
    ///
    /// # Errors
    /// Returns the error of the first header that can't be sent.
    pub fn extra_headers(&self) -> Result<HeaderMap, TraceHeaderError> {
        let mut map = HeaderMap::new();
        for (name, value) in &self.headers {
            let parsed: HeaderName =
                name.parse().map_err(|_| TraceHeaderError::Name(name.clone()))?;
            if RESERVED.contains(&parsed) {
                return Err(TraceHeaderError::Reserved(name.clone()));
            }
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| TraceHeaderError::Value(name.clone()))?;
            value.set_sensitive(true);
            map.append(parsed, value);
        }
        Ok(map)
    }

    fn check_headers(&mut self, table: &mut TableReader<'_>) {
        if let Err(error) = self.extra_headers() {
            table.error_at(Self::HEADERS.name, &error.to_string());
        }
    }
}

/// Limits of what is stored and sent.
#[derive(Clone, Debug, PartialEq, Eq, Section)]
#[section(restart, path = "traces.limits")]
pub struct TraceLimits {
    /// Finished spans that wait to be sent; further ones are dropped.
    #[setting(range = 1..=1_000_000, default = 8_192)]
    pub queue_max: usize,
    /// Spans in one request to the collector.
    #[setting(range = 1..=100_000, default = 512)]
    pub batch_max: usize,
    /// Time limit of one request to the collector, connecting included.
    #[setting(range = SECOND..=MINUTE, default = SECOND.saturating_mul(5))]
    pub timeout: Duration,
    /// How long a span waits for others to join it in one request.
    #[setting(advanced, range = Duration::from_millis(10)..=MINUTE, default = SECOND)]
    pub batch_interval: Duration,
    /// Attempts to send a batch while the collector is unreachable or busy; then it is dropped.
    #[setting(advanced, range = 1..=100, default = 5)]
    pub attempts_max: u32,
    /// Jobs in progress whose spans wait for their end; further jobs are not traced.
    #[setting(advanced, range = 0..=1_000_000, default = 10_000)]
    pub jobs_max: usize,
}
