//! The metrics of all apps, named `weir_front_app_*`.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::dispatch::QueueError;
use crate::latencies::Latencies;
use crate::shed::ShedState;
use crate::view::{ReasonCount, TotalsView};

/// The bounds of the histograms in seconds, from 0.1 ms to 90 s.
const BOUNDS: [f64; 14] =
    [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 90.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProxiedAppLabel {
    app: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AppReasonLabel {
    app: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    app: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShedStateLabel {
    app: String,
    state: &'static str,
}

/// Why a request got no response of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RequestFailure {
    /// The request must not be forwarded: 400 and the like.
    BadRequest,
    /// No worker could be reached: 502.
    Unreachable,
    /// The worker closed the connection before its response was complete: 502.
    Broken,
    /// The head of the response exceeds `answer_head_bytes_max` or `answer_headers_max`: 502.
    AnswerHead,
    /// The worker did not respond within `service_timeout`: 504.
    Late,
    /// The client disconnected before the response.
    ClientGone,
    /// A shed rule rejects it because a job queue is behind.
    Shed,
    Maintenance,
}

impl RequestFailure {
    const ALL: [Self; 8] = [
        Self::BadRequest,
        Self::Unreachable,
        Self::Broken,
        Self::AnswerHead,
        Self::Late,
        Self::ClientGone,
        Self::Shed,
        Self::Maintenance,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::Unreachable => "unreachable",
            Self::Broken => "broken",
            Self::AnswerHead => "answer_head",
            Self::Late => "service_timeout",
            Self::ClientGone => "client_gone",
            Self::Shed => "shed",
            Self::Maintenance => "maintenance",
        }
    }
}

const REJECTIONS: [QueueError; 5] = [
    QueueError::QueueFull,
    QueueError::QueueTimeout,
    QueueError::Overload,
    QueueError::Streams,
    QueueError::ClientStreams,
];

const fn rejection_name(error: QueueError) -> &'static str {
    match error {
        QueueError::QueueFull => "queue_max",
        QueueError::QueueTimeout => "queue_timeout",
        QueueError::Overload => "overload",
        QueueError::Streams => "streams",
        QueueError::ClientStreams => "clients.streams_max",
    }
}

/// The classes of a status, by its first digit.
const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The metrics of all apps.
#[derive(Clone, Debug)]
pub struct FrontMetrics {
    queue: Family<ProxiedAppLabel, Histogram, fn() -> Histogram>,
    service: Family<ProxiedAppLabel, Histogram, fn() -> Histogram>,
    responses: Family<StatusLabel, Counter>,
    rejections: Family<AppReasonLabel, Counter>,
    failures: Family<AppReasonLabel, Counter>,
    waiting: Family<ProxiedAppLabel, Gauge>,
    busy_peak: Family<ProxiedAppLabel, Gauge>,
    buffered: Family<ProxiedAppLabel, Gauge>,
    shed_rules: Family<ShedStateLabel, Gauge>,
}

impl FrontMetrics {
    /// Creates and registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            queue: Family::new_with_constructor(histogram),
            service: Family::new_with_constructor(histogram),
            responses: Family::default(),
            rejections: Family::default(),
            failures: Family::default(),
            waiting: Family::default(),
            busy_peak: Family::default(),
            buffered: Family::default(),
            shed_rules: Family::default(),
        };
        registry.register(
            "weir_front_app_queue_seconds",
            "Time from the request head to the assignment of a worker",
            metrics.queue.clone(),
        );
        registry.register(
            "weir_front_app_service_seconds",
            "Time from the assignment of a worker to the response head",
            metrics.service.clone(),
        );
        registry.register(
            "weir_front_app_answers",
            "Responses of workers, by status",
            metrics.responses.clone(),
        );
        registry.register(
            "weir_front_app_refusals",
            "Requests rejected without a worker, and streams rejected, by limit",
            metrics.rejections.clone(),
        );
        registry.register(
            "weir_front_app_failures",
            "Requests without a response from a worker, by reason",
            metrics.failures.clone(),
        );
        registry.register(
            "weir_front_app_waiting",
            "Requests waiting for a worker",
            metrics.waiting.clone(),
        );
        registry.register(
            "weir_front_app_busy_peak",
            "Most requests in progress at once in the last one to two minutes",
            metrics.busy_peak.clone(),
        );
        registry.register(
            "weir_front_app_buffered_bytes",
            "Bytes of bodies buffered for clients that are slower than the workers",
            metrics.buffered.clone(),
        );
        registry.register(
            "weir_front_app_shed_rules",
            "Rules of [[front.apps.shed]] by state: on (requests are rejected), off, or unknown (the queue's latency is not known, so nothing is rejected)",
            metrics.shed_rules.clone(),
        );
        metrics
    }

    /// Returns the metrics of one app.
    pub(crate) fn for_app(&self, app: &str) -> AppMetrics {
        let app = || app.to_owned();
        let reason = |reason| AppReasonLabel { app: app(), reason };
        let counter = |family: &Family<AppReasonLabel, Counter>, name| {
            family.get_or_create(&reason(name)).clone()
        };
        AppMetrics {
            queue: self.queue.get_or_create(&ProxiedAppLabel { app: app() }).clone(),
            queue_times: Arc::default(),
            service_times: Arc::default(),
            app_times: Arc::default(),
            client_times: Arc::default(),
            service: self.service.get_or_create(&ProxiedAppLabel { app: app() }).clone(),
            responses: STATUSES.map(|status| {
                self.responses.get_or_create(&StatusLabel { app: app(), status }).clone()
            }),
            rejections: REJECTIONS.map(|error| counter(&self.rejections, rejection_name(error))),
            failures: RequestFailure::ALL.map(|failure| counter(&self.failures, failure.name())),
            shed_rules: ShedState::ALL.map(|(_, state)| {
                self.shed_rules.get_or_create(&ShedStateLabel { app: app(), state }).clone()
            }),
            buffered: self.buffered.get_or_create(&ProxiedAppLabel { app: app() }).clone(),
            waiting: self.waiting.get_or_create(&ProxiedAppLabel { app: app() }).clone(),
            busy_peak: self.busy_peak.get_or_create(&ProxiedAppLabel { app: app() }).clone(),
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(BOUNDS)
}

/// The metrics of one app.
#[derive(Clone, Debug)]
pub(crate) struct AppMetrics {
    queue: Histogram,
    service: Histogram,
    /// The same durations and others as finer histograms, which [`AppMetrics::totals`] reads.
    queue_times: Arc<Latencies>,
    service_times: Arc<Latencies>,
    app_times: Arc<Latencies>,
    client_times: Arc<Latencies>,
    responses: [Counter; 5],
    rejections: [Counter; REJECTIONS.len()],
    failures: [Counter; RequestFailure::ALL.len()],
    waiting: Gauge,
    busy_peak: Gauge,
    buffered: Gauge,
    /// In the order of [`ShedState::ALL`].
    shed_rules: [Gauge; ShedState::ALL.len()],
}

impl AppMetrics {
    /// Counts a request that got its slot after `waited`.
    pub(crate) fn queued(&self, waited: Duration) {
        self.queue.observe(waited.as_secs_f64());
        self.queue_times.record(waited);
    }

    /// Counts a worker's response, whose head came after `duration`.
    pub(crate) fn responded(&self, status: StatusCode, duration: Duration) {
        self.service.observe(duration.as_secs_f64());
        self.service_times.record(duration);
        let class = usize::from(status.as_u16() / 100).clamp(1, STATUSES.len());
        self.responses[class - 1].inc();
    }

    /// Counts how long the client waited for a response, and how long the app says that it took.
    pub(crate) fn record_durations(&self, outside: Duration, inside: Option<Duration>) {
        self.client_times.record(outside);
        if let Some(inside) = inside {
            self.app_times.record(inside);
        }
    }

    pub(crate) fn rejected(&self, error: QueueError) {
        self.rejections[error as usize].inc();
    }

    pub(crate) fn failed(&self, failure: RequestFailure) {
        self.failures[failure as usize].inc();
    }

    /// Counts a failure. None: it was counted elsewhere.
    pub(crate) fn failed_with(&self, failure: Option<RequestFailure>) {
        if let Some(failure) = failure {
            self.failed(failure);
        }
    }

    /// Sets how many bytes of bodies are buffered.
    pub(crate) fn buffered(&self, bytes: usize) {
        self.buffered.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Sets how many shed rules are in each state.
    pub(crate) fn shed_rules(&self, states: &[ShedState]) {
        for ((state, _), gauge) in ShedState::ALL.iter().zip(&self.shed_rules) {
            let count = states.iter().filter(|it| *it == state).count();
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Sets how many requests wait.
    pub(crate) fn waiting(&self, waiting: usize) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Sets the most requests that were in progress at once lately.
    pub(crate) fn busy_peak(&self, requests: u32) {
        self.busy_peak.set(i64::from(requests));
    }

    /// Returns the totals since the start, for operators.
    pub(crate) fn totals(&self) -> TotalsView {
        let rejections = REJECTIONS.iter().zip(&self.rejections);
        let failures = RequestFailure::ALL.iter().zip(&self.failures);
        TotalsView {
            responses: self.responses.iter().map(Counter::get).sum(),
            server_errors: self.responses[STATUSES.len() - 1].get(),
            rejections: rejections
                .map(|(reason, counter)| ReasonCount {
                    reason: rejection_name(*reason),
                    count: counter.get(),
                })
                .collect(),
            failures: failures
                .map(|(reason, counter)| ReasonCount {
                    reason: reason.name(),
                    count: counter.get(),
                })
                .collect(),
            queue_times: self.queue_times.distribution(),
            service_times: self.service_times.distribution(),
            app_times: self.app_times.distribution(),
            client_times: self.client_times.distribution(),
            busy_peak: 0,
            request_slots: 0,
        }
    }
}
