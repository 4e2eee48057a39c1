//! The metrics of the server side, named `weir_front_*`; those of certificates are in [`tls`].
//!
//! Promises: counting costs one atomic addition; all label values are from fixed lists.

mod tls;

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub use self::tls::{ReloadOutcome, TlsMetrics};

/// A limit that was reached, for the metrics; most are of [`crate::server::HttpServerLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is documented at the setting of the same name")]
pub enum HttpServerLimit {
    ConnectionsMax,
    /// The system's limit of open files, not a setting of Weir.
    OpenFiles,
    RefusalsMax,
    LingerTimeout,
    DiscardTimeout,
    AcceptsPerSecond,
    HeadBytesMax,
    HeadersMax,
    HeadTimeout,
    IdleTimeout,
    WriteTimeout,
    TlsHandshakesMax,
    TlsHandshakeTimeout,
    Http2StreamsMax,
    Http2ResetsMax,
    /// `http2_control_frames_burst` and `http2_control_frames_per_second`.
    Http2ControlFrames,
    Http2PingTimeout,
    /// [`crate::server::AnswerWithin`], which a service sets; not a setting.
    AnswerTimeout,
    ClientConnections,
    ClientRequests,
    ClientStreams,
}

impl HttpServerLimit {
    /// All limits, in the order of their discriminants.
    pub const ALL: [Self; 21] = [
        Self::ConnectionsMax,
        Self::OpenFiles,
        Self::RefusalsMax,
        Self::LingerTimeout,
        Self::DiscardTimeout,
        Self::AcceptsPerSecond,
        Self::HeadBytesMax,
        Self::HeadersMax,
        Self::HeadTimeout,
        Self::IdleTimeout,
        Self::WriteTimeout,
        Self::TlsHandshakesMax,
        Self::TlsHandshakeTimeout,
        Self::Http2StreamsMax,
        Self::Http2ResetsMax,
        Self::Http2ControlFrames,
        Self::Http2PingTimeout,
        Self::AnswerTimeout,
        Self::ClientConnections,
        Self::ClientRequests,
        Self::ClientStreams,
    ];

    /// Returns the name of the setting.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionsMax => "connections_max",
            Self::OpenFiles => "open_files",
            Self::RefusalsMax => "refusals_max",
            Self::LingerTimeout => "linger_timeout",
            Self::DiscardTimeout => "discard_timeout",
            Self::AcceptsPerSecond => "accepts_per_second",
            Self::HeadBytesMax => "head_bytes_max",
            Self::HeadersMax => "headers_max",
            Self::HeadTimeout => "head_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::WriteTimeout => "write_timeout",
            Self::TlsHandshakesMax => "tls_handshakes_max",
            Self::TlsHandshakeTimeout => "tls_handshake_timeout",
            Self::Http2StreamsMax => "http2_streams_max",
            Self::Http2ResetsMax => "http2_resets_max",
            Self::Http2ControlFrames => "http2_control_frames",
            Self::Http2PingTimeout => "http2_ping_timeout",
            Self::AnswerTimeout => "answer_timeout",
            Self::ClientConnections => "clients.connections_max",
            Self::ClientRequests => "clients.requests_max",
            Self::ClientStreams => "clients.streams_max",
        }
    }
}

/// Why this crate itself rejected a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadRefusal {
    /// Not HTTP, or malformed: 400.
    Malformed,
    /// A version other than HTTP/1.x and HTTP/2: 505.
    Version,
    /// Longer than `head_bytes_max`: 431.
    TooManyBytes,
    /// More header fields than `headers_max`: 431.
    TooManyFields,
    /// Not complete in time: 408.
    Late,
    /// A request for an upgrade that announces a body: 400.
    UpgradeWithBody,
    /// The service rejected the upgrade, with a status of its own.
    UpgradeRefused,
    /// `CONNECT` over HTTP/2: 405.
    Connect,
    /// `Host` and `:authority` differ: 400.
    TwoHosts,
}

impl HeadRefusal {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Version,
        Self::TooManyBytes,
        Self::TooManyFields,
        Self::Late,
        Self::UpgradeWithBody,
        Self::UpgradeRefused,
        Self::Connect,
        Self::TwoHosts,
    ];

    /// Returns the value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::TooManyBytes => "too_many_bytes",
            Self::TooManyFields => "too_many_fields",
            Self::Late => "late",
            Self::UpgradeWithBody => "upgrade_with_body",
            Self::UpgradeRefused => "upgrade_refused",
            Self::Connect => "connect",
            Self::TwoHosts => "two_hosts",
        }
    }
}

/// Why a connection was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionRefusal {
    /// `front.limits.connections_max` connections were open.
    ConnectionsMax,
    /// The client had `front.clients.connections_max` connections.
    ClientConnectionsMax,
    /// The process had no file descriptor left.
    OpenFiles,
    /// The TLS handshake failed.
    TlsFailed,
    /// The TLS handshake exceeded its time limit.
    TlsLate,
}

impl ConnectionRefusal {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 5] = [
        Self::ConnectionsMax,
        Self::ClientConnectionsMax,
        Self::OpenFiles,
        Self::TlsFailed,
        Self::TlsLate,
    ];

    /// Returns the value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConnectionsMax => "connections_max",
            Self::ClientConnectionsMax => "clients.connections_max",
            Self::OpenFiles => "open_files",
            Self::TlsFailed => "tls_failed",
            Self::TlsLate => "tls_late",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HttpLimitLabel {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectReasonLabel {
    reason: &'static str,
}

/// The metrics of the server side. Cheap to clone; clones share the counters.
#[derive(Clone, Debug)]
pub struct NetMetrics(Arc<HttpServerCounters>);

#[derive(Debug)]
struct HttpServerCounters {
    open: Gauge,
    accepted: Counter,
    requests: Counter,
    upgrades: Counter,
    http2: Counter,
    limits: [Counter; HttpServerLimit::ALL.len()],
    heads_refused: [Counter; HeadRefusal::ALL.len()],
    connections_refused: [Counter; ConnectionRefusal::ALL.len()],
}

impl NetMetrics {
    /// Creates the metrics and registers them under `weir_front_`.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("weir_front");
        let counters = HttpServerCounters {
            open: Gauge::default(),
            accepted: Counter::default(),
            requests: Counter::default(),
            upgrades: Counter::default(),
            http2: Counter::default(),
            limits: limits(registry),
            heads_refused: reasons(
                registry,
                ("heads_refused", "Requests that were rejected before they reached a service"),
                HeadRefusal::ALL.map(HeadRefusal::name),
            ),
            connections_refused: reasons(
                registry,
                ("connections_refused", "Connections that were rejected"),
                ConnectionRefusal::ALL.map(ConnectionRefusal::name),
            ),
        };
        registry.register(
            "connections_open",
            "Open connections, including upgraded ones",
            counters.open.clone(),
        );
        registry.register(
            "connections_accepted",
            "Connections accepted",
            counters.accepted.clone(),
        );
        registry.register(
            "requests",
            "Requests passed to a service, excluding upgrades",
            counters.requests.clone(),
        );
        registry.register(
            "upgrades",
            "Connections upgraded (for example to WebSocket)",
            counters.upgrades.clone(),
        );
        registry.register(
            "http2_connections",
            "Connections that used HTTP/2",
            counters.http2.clone(),
        );
        Self(Arc::new(counters))
    }

    /// Creates unregistered metrics, for tests and tools.
    #[must_use]
    pub fn detached() -> Self {
        Self::register(&mut Registry::default())
    }

    /// Returns how many connections are open, upgraded ones included.
    #[must_use]
    pub fn connections_open(&self) -> i64 {
        self.0.open.get()
    }

    /// Returns how many connections were accepted since the start.
    #[must_use]
    pub fn connections_accepted(&self) -> u64 {
        self.0.accepted.get()
    }

    /// Returns how often a limit was reached since the start.
    #[must_use]
    pub fn limit_hits(&self, limit: HttpServerLimit) -> u64 {
        self.0.limits[limit as usize].get()
    }

    /// Returns how many heads were rejected for this reason since the start.
    #[must_use]
    pub fn heads_refused(&self, reason: HeadRefusal) -> u64 {
        self.0.heads_refused[reason as usize].get()
    }

    /// Returns how many connections were rejected for this reason since the start.
    #[must_use]
    pub fn connections_refused(&self, reason: ConnectionRefusal) -> u64 {
        self.0.connections_refused[reason as usize].get()
    }

    pub(crate) fn open(&self) -> &Gauge {
        &self.0.open
    }

    pub(crate) fn accepted(&self) {
        self.0.accepted.inc();
    }

    pub(crate) fn request(&self) {
        self.0.requests.inc();
    }

    pub(crate) fn upgrade(&self) {
        self.0.upgrades.inc();
    }

    pub(crate) fn http2(&self) {
        self.0.http2.inc();
    }

    pub(crate) fn limit_hit(&self, limit: HttpServerLimit) {
        self.0.limits[limit as usize].inc();
    }

    pub(crate) fn head_refused(&self, reason: HeadRefusal) {
        self.0.heads_refused[reason as usize].inc();
    }

    pub(crate) fn connection_refused(&self, reason: ConnectionRefusal) {
        self.0.connections_refused[reason as usize].inc();
    }
}

fn limits(registry: &mut Registry) -> [Counter; HttpServerLimit::ALL.len()] {
    let family = Family::<HttpLimitLabel, Counter>::default();
    let help = "Times that a limit (named as in weir.toml) was reached";
    registry.register("limit_hits", help, family.clone());
    HttpServerLimit::ALL
        .map(|limit| family.get_or_create_owned(&HttpLimitLabel { limit: limit.name() }))
}

fn reasons<const N: usize>(
    registry: &mut Registry,
    (name, help): (&str, &str),
    reasons: [&'static str; N],
) -> [Counter; N] {
    let family = Family::<RejectReasonLabel, Counter>::default();
    registry.register(name, help, family.clone());
    reasons.map(|reason| family.get_or_create_owned(&RejectReasonLabel { reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_match_the_order_of_their_discriminants() {
        fn check<T: Copy + std::fmt::Debug>(
            all: &[T],
            index: fn(T) -> usize,
            name: fn(T) -> &'static str,
        ) {
            let mut names: Vec<_> = all.iter().map(|one| name(*one)).collect();
            assert!(all.iter().enumerate().all(|(at, one)| index(*one) == at), "{all:?}");
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all.len());
        }
        check(&HttpServerLimit::ALL, |one| one as usize, HttpServerLimit::name);
        check(&HeadRefusal::ALL, |one| one as usize, HeadRefusal::name);
        check(&ConnectionRefusal::ALL, |one| one as usize, ConnectionRefusal::name);
    }

    #[test]
    fn a_scrape_contains_the_counters() {
        let mut registry = Registry::default();
        let metrics = NetMetrics::register(&mut registry);
        metrics.limit_hit(HttpServerLimit::HeadTimeout);
        metrics.head_refused(HeadRefusal::Late);
        metrics.connection_refused(ConnectionRefusal::TlsLate);
        metrics.accepted();
        metrics.request();
        metrics.upgrade();
        metrics.http2();
        metrics.open().inc();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encoded");
        for line in [
            "weir_front_limit_hits_total{limit=\"head_timeout\"} 1\n",
            "weir_front_heads_refused_total{reason=\"late\"} 1\n",
            "weir_front_connections_refused_total{reason=\"tls_late\"} 1\n",
            "weir_front_connections_accepted_total 1\n",
            "weir_front_requests_total 1\n",
            "weir_front_upgrades_total 1\n",
            "weir_front_http2_connections_total 1\n",
            "weir_front_connections_open 1\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
