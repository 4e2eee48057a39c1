//! A hub for tests: one core, one app, webhooks that nobody sends.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::Shutdown;

use super::{Hub, Parts};
use crate::metrics::RealtimeMetrics;
use crate::settings::{AppSettings, Settings};
use crate::webhooks::{self, WebhookMetrics, Webhooks};

pub(crate) fn hub(clock: &Clock) -> Arc<Hub> {
    hub_with(clock, |_| {})
}

pub(crate) fn hub_with(clock: &Clock, change: impl FnOnce(&mut Settings)) -> Arc<Hub> {
    let mut registry = Registry::default();
    let semaphore = Arc::new(Semaphore::new("webhooks", "webhooks_in_flight_max", 1));
    let (webhooks, _) = Webhooks::start(
        webhooks::Settings::default(),
        clock.clone(),
        WebhookMetrics::register(&mut registry),
        semaphore,
        Shutdown::new(),
    );
    let mut settings = Settings::default();
    change(&mut settings);
    Hub::new(Parts {
        cores: 1,
        settings,
        apps: vec![AppSettings::new("1", "key", Secret::new("secret"))],
        clock: clock.clone(),
        metrics: RealtimeMetrics::register(&mut registry),
        webhooks,
    })
}
