//! All that the console counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The console's counters. Cheap to clone; clones share them.
#[derive(Clone, Debug, Default)]
pub struct ConsoleMetrics {
    limit_hits: Family<LimitLabels, Counter>,
    logins: Family<LoginLabels, Counter>,
}

/// A limit of [`crate::settings::Limits`] that somebody ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    SessionsMax,
    LoginBurst,
    StreamsMax,
    BodyBytesMax,
    RequestTimeout,
    ChartQueuesMax,
    SearchTime,
    ActionWait,
}

/// How a try to log in ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    Accepted,
    WrongPassword,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoginLabels {
    result: &'static str,
}

impl ConsoleMetrics {
    /// Adds the counters to `registry`, under `weir_console_`.
    pub fn register(&self, registry: &mut Registry) {
        let console = registry.sub_registry_with_prefix("weir_console");
        let help = "How often a limit was met, by the name of its setting under console.limits";
        console.register("limit_hits", help, self.limit_hits.clone());
        console.register("logins", "Tries to log in, by result", self.logins.clone());
    }

    pub(crate) fn limit_hit(&self, limit: Limit) {
        let limit = match limit {
            Limit::SessionsMax => "sessions_max",
            Limit::LoginBurst => "login_burst",
            Limit::StreamsMax => "streams_max",
            Limit::BodyBytesMax => "body_bytes_max",
            Limit::RequestTimeout => "request_timeout",
            Limit::ChartQueuesMax => "chart_queues_max",
            Limit::SearchTime => "search_time",
            Limit::ActionWait => "action_wait",
        };
        self.limit_hits.get_or_create(&LimitLabels { limit }).inc();
    }

    pub(crate) fn login(&self, login: Login) {
        let result = match login {
            Login::Accepted => "accepted",
            Login::WrongPassword => "wrong_password",
        };
        self.logins.get_or_create(&LoginLabels { result }).inc();
    }
}
