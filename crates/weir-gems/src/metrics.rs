//! All metrics of gems, named `weir_gems_*`.

mod held;
mod mirror;

use std::time::Duration;

use hyper::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use weir_net::client::ClientAddress;

use self::held::Budgets;
pub(crate) use self::held::{Budget, Room, RoomMax};
pub use self::mirror::MirrorMetrics;
pub(crate) use self::mirror::{FetchFailure, Outcome, UpstreamMetrics};
use crate::http::Endpoint;

/// Buckets from 0.1 ms to 10 s.
const SECONDS: [f64; 12] =
    [0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0];
const NAMES: [f64; 8] = [0.0, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndpointLabel {
    endpoint: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabel {
    endpoint: &'static str,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabel {
    limit: &'static str,
}

/// A limit of `[gems.limits]` that a request exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    DependencyNamesMax,
    DependencyAnswerBytesMax,
    DependencyMemoryBytesMax,
    InfoMemoryBytesMax,
    ClientMemoryPercentMax,
    PushesMax,
    BodyTimeout,
    FormBytesMax,
    GemBytesMax,
    /// Any limit that applies to the contents of a package.
    Package,
    WrongKeysMax,
    WaitingKeysMax,
}

impl Limit {
    const ALL: [Self; 12] = [
        Self::DependencyNamesMax,
        Self::DependencyAnswerBytesMax,
        Self::DependencyMemoryBytesMax,
        Self::InfoMemoryBytesMax,
        Self::ClientMemoryPercentMax,
        Self::PushesMax,
        Self::BodyTimeout,
        Self::FormBytesMax,
        Self::GemBytesMax,
        Self::Package,
        Self::WrongKeysMax,
        Self::WaitingKeysMax,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::DependencyNamesMax => "dependency_names_max",
            Self::DependencyAnswerBytesMax => "dependency_answer_bytes_max",
            Self::DependencyMemoryBytesMax => "dependency_memory_bytes_max",
            Self::InfoMemoryBytesMax => "info_memory_bytes_max",
            Self::ClientMemoryPercentMax => "client_memory_percent_max",
            Self::PushesMax => "pushes_max",
            Self::BodyTimeout => "body_timeout",
            Self::FormBytesMax => "form_bytes_max",
            Self::GemBytesMax => "gem_bytes_max",
            Self::Package => "package",
            Self::WrongKeysMax => "wrong_keys_max",
            Self::WaitingKeysMax => "waiting_keys_max",
        }
    }
}

/// Values of the status label. Other statuses are grouped by their first digit.
const STATUSES: [&str; 7] = ["200", "206", "304", "2xx", "3xx", "4xx", "5xx"];

const fn status_index(status: StatusCode) -> usize {
    match status.as_u16() {
        200 => 0,
        206 => 1,
        304 => 2,
        100..=299 => 3,
        300..=399 => 4,
        400..=499 => 5,
        _ => 6,
    }
}

/// The metrics of gems.
#[derive(Clone, Debug)]
pub struct GemsMetrics {
    endpoints: [EndpointMetrics; Endpoint::COUNT],
    dependency_names: Histogram,
    wrong_keys: Counter,
    limits: [Counter; Limit::ALL.len()],
    budgets: Budgets,
}

#[derive(Clone, Debug)]
struct EndpointMetrics {
    seconds: Histogram,
    bytes: Counter,
    answers: [Counter; STATUSES.len()],
}

impl GemsMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let seconds: Family<EndpointLabel, Histogram, fn() -> Histogram> =
            Family::new_with_constructor(|| Histogram::new(SECONDS));
        let bytes = Family::<EndpointLabel, Counter>::default();
        let answers = Family::<AnswerLabel, Counter>::default();
        let limits = Family::<LimitLabel, Counter>::default();
        let dependency_names = Histogram::new(NAMES);
        let wrong_keys = Counter::default();
        registry.register(
            "weir_gems_wrong_keys",
            "Requests with an API key that there is not",
            wrong_keys.clone(),
        );
        registry.register(
            "weir_gems_answer_seconds",
            "From a request's head to the head of its answer",
            seconds.clone(),
        );
        registry.register("weir_gems_answer_bytes", "Bytes of answers' bodies", bytes.clone());
        registry.register("weir_gems_answers", "Answers, by status", answers.clone());
        registry.register(
            "weir_gems_dependency_names",
            "Names in a request to the dependency API",
            dependency_names.clone(),
        );
        registry.register(
            "weir_gems_limit_hits",
            "Requests that ran into a limit of [gems.limits]",
            limits.clone(),
        );
        let endpoints = Endpoint::ALL.map(|endpoint| {
            let label = EndpointLabel { endpoint: endpoint.name() };
            EndpointMetrics {
                seconds: seconds.get_or_create(&label).clone(),
                bytes: bytes.get_or_create(&label).clone(),
                answers: STATUSES.map(|status| {
                    let label = AnswerLabel { endpoint: endpoint.name(), status };
                    answers.get_or_create(&label).clone()
                }),
            }
        });
        let limits = Limit::ALL
            .map(|limit| limits.get_or_create(&LimitLabel { limit: limit.name() }).clone());
        let budgets = Budgets::register(registry);
        Self { endpoints, dependency_names, wrong_keys, limits, budgets }
    }

    pub(crate) fn answered(
        &self,
        endpoint: Endpoint,
        status: StatusCode,
        bytes: u64,
        took: Duration,
    ) {
        let metrics = &self.endpoints[endpoint as usize];
        metrics.seconds.observe(took.as_secs_f64());
        metrics.bytes.inc_by(bytes);
        metrics.answers[status_index(status)].inc();
    }

    #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
    pub(crate) fn dependency_names(&self, names: usize) {
        self.dependency_names.observe(names as f64);
    }

    pub(crate) fn wrong_key(&self) {
        self.wrong_keys.inc();
    }

    /// Reserves memory for `bytes` bytes of a response.
    ///
    /// # Errors
    /// Returns the limit that is exhausted.
    pub(crate) fn room(
        &self,
        budget: Budget,
        client: Option<ClientAddress>,
        bytes: u64,
        max: RoomMax,
    ) -> Result<Room, Limit> {
        self.budgets.take(budget, client, bytes, max).inspect_err(|limit| self.limit_hit(*limit))
    }

    pub(crate) fn limit_hit(&self, limit: Limit) {
        self.limits[limit as usize].inc();
    }
}
