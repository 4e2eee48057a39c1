//! All metrics of the server side, named `weir_front_*`; those of certificates are in [`tls`].
//!
//! Promises: an event costs an atomic add; every label is from a fixed list.

mod tls;

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub use self::tls::{ReloadOutcome, TlsMetrics};

/// A limit of [`crate::server::HttpServerLimits`] that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is documented at the setting of the same name")]
pub enum HttpServerLimit {
    ConnectionsMax,
    /// Not a setting of Weir: the system's limit of open files.
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
    /// Not a setting of the server side: [`crate::server::AnswerWithin`], which a service sets.
    AnswerTimeout,
    ClientConnections,
    ClientRequests,
    ClientStreams,
}

impl HttpServerLimit {
    /// All, in the order of their discriminants.
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

    /// The name of its setting.
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

/// Why a request's head was answered by weir-net itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeadRefusal {
    /// Not HTTP, or damaged: 400.
    Malformed,
    /// Another version than HTTP/1.x or HTTP/2: 505.
    Version,
    /// Longer than `head_bytes_max`: 431.
    TooManyBytes,
    /// More header fields than `headers_max`: 431.
    TooManyFields,
    /// Not complete in time: 408.
    Late,
    /// It requests an upgrade and announces a body: 400.
    UpgradeWithBody,
    /// The service did not want the upgrade: the response is its own.
    UpgradeRefused,
    /// `CONNECT` over HTTP/2: 405.
    Connect,
    /// `Host` and `:authority` differ: 400.
    TwoHosts,
}

impl HeadRefusal {
    /// All, in the order of their discriminants.
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

    /// The label's value.
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

/// Why a connection was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionRefusal {
    /// `front.limits.connections_max` were open.
    ConnectionsMax,
    /// One client had `front.clients.connections_max` of them.
    ClientConnectionsMax,
    /// The process had no descriptor left.
    OpenFiles,
    /// No TLS was agreed upon.
    TlsFailed,
    /// Not in time.
    TlsLate,
}

impl ConnectionRefusal {
    /// All, in the order of their discriminants.
    pub const ALL: [Self; 5] = [
        Self::ConnectionsMax,
        Self::ClientConnectionsMax,
        Self::OpenFiles,
        Self::TlsFailed,
        Self::TlsLate,
    ];

    /// The label's value.
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

/// The server side's metrics. Cheap to clone, `Send`.
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
    /// Makes the metrics and registers them under `weir_front_`.
    pub fn register(registry: &mut Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("weir_front");
        let inner = HttpServerCounters {
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
            inner.open.clone(),
        );
        registry.register("connections_accepted", "Connections accepted", inner.accepted.clone());
        registry.register(
            "requests",
            "Requests passed to a service, excluding upgrades",
            inner.requests.clone(),
        );
        registry.register(
            "upgrades",
            "Connections upgraded (for example to WebSocket)",
            inner.upgrades.clone(),
        );
        registry.register("http2_connections", "Connections that used HTTP/2", inner.http2.clone());
        Self(Arc::new(inner))
    }

    /// Metrics that nobody reads, for tests and tools.
    #[must_use]
    pub fn detached() -> Self {
        Self::register(&mut Registry::default())
    }

    /// Connections that are open now, upgraded ones included.
    #[must_use]
    pub fn connections_open(&self) -> i64 {
        self.0.open.get()
    }

    /// Connections taken from the kernel since the start.
    #[must_use]
    pub fn connections_accepted(&self) -> u64 {
        self.0.accepted.get()
    }

    /// How often a limit was met since the start.
    #[must_use]
    pub fn limit_hits(&self, limit: HttpServerLimit) -> u64 {
        self.0.limits[limit as usize].get()
    }

    /// Heads that were refused for this reason since the start.
    #[must_use]
    pub fn heads_refused(&self, reason: HeadRefusal) -> u64 {
        self.0.heads_refused[reason as usize].get()
    }

    /// Connections that were refused for this reason since the start.
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
    fn labels_are_in_the_order_of_their_discriminants_and_differ() {
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
    fn a_scrape_shows_what_was_counted() {
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
