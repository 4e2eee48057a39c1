//! A hub on its own, for tests and benchmarks. Its webhooks are never sent.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;

use super::{Hub, HubParts};
use crate::metrics::RealtimeMetrics;
use crate::settings::{AppSettings, Settings};
use crate::shared_log::SharedLog;
use crate::webhooks::{self, WebhookMetrics, Webhooks};

/// Returns a hub with these apps and one core.
pub(crate) fn single_core_hub(
    clock: &Clock,
    settings: Settings,
    apps: Vec<AppSettings>,
    log: Option<Arc<dyn SharedLog>>,
) -> Arc<Hub> {
    let mut registry = Registry::default();
    let semaphore = Arc::new(Semaphore::new("webhooks", "webhooks_in_flight_max", 1));
    let (webhooks, _) = Webhooks::start(
        webhooks::WebhookSettings::default(),
        clock.clone(),
        WebhookMetrics::register(&mut registry),
        semaphore,
        ShutdownToken::new(),
    );
    Hub::new(HubParts {
        tracer: Default::default(),
        cores: 1,
        settings,
        apps,
        clock: clock.clone(),
        metrics: RealtimeMetrics::register(&mut registry),
        webhooks,
        log,
    })
}

/// Returns the result of a future that is ready at once, as those of the local broker are.
pub(crate) fn poll_now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the local broker is ready at once"),
    }
}

/// Returns a hub with one app.
#[cfg(test)]
pub(crate) fn hub(clock: &Clock) -> Arc<Hub> {
    single_core_hub_with(clock, |_| {})
}

#[cfg(test)]
pub(crate) fn single_core_hub_with(clock: &Clock, change: impl FnOnce(&mut Settings)) -> Arc<Hub> {
    let mut settings = Settings::default();
    change(&mut settings);
    let secret = weir_base::secret::Secret::new("secret");
    single_core_hub(clock, settings, vec![AppSettings::new("1", "key", secret)], None)
}
