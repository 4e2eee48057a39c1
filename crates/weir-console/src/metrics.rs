//! The console's metrics.

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

/// A limit of [`crate::settings::ConsoleLimits`] that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConsoleLimit {
    SessionsMax,
    LoginBurst,
    PasswordChecksMax,
    StreamsMax,
    BodyBytesMax,
    RequestTimeout,
    ChartQueuesMax,
    SearchTime,
    ActionWait,
}

/// The outcome of a login attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginOutcome {
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

    pub(crate) fn limit_hit(&self, limit: ConsoleLimit) {
        let limit = match limit {
            ConsoleLimit::SessionsMax => "sessions_max",
            ConsoleLimit::LoginBurst => "login_burst",
            ConsoleLimit::PasswordChecksMax => "password_checks_max",
            ConsoleLimit::StreamsMax => "streams_max",
            ConsoleLimit::BodyBytesMax => "body_bytes_max",
            ConsoleLimit::RequestTimeout => "request_timeout",
            ConsoleLimit::ChartQueuesMax => "chart_queues_max",
            ConsoleLimit::SearchTime => "search_time",
            ConsoleLimit::ActionWait => "action_wait",
        };
        self.limit_hits.get_or_create(&LimitLabels { limit }).inc();
    }

    pub(crate) fn login(&self, login: LoginOutcome) {
        let result = match login {
            LoginOutcome::Accepted => "accepted",
            LoginOutcome::WrongPassword => "wrong_password",
        };
        self.logins.get_or_create(&LoginLabels { result }).inc();
    }
}
