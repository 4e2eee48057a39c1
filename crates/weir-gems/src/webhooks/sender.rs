//! Sends the stored events.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::sleep;
use weir_base::clock::Clock;
use weir_base::shutdown::ShutdownToken;
use weir_net::webhook::{Receiver, WebhookDelivery};

use super::metrics::WebhookMetrics;
use super::outbox::EndpointOutbox;
use super::settings::{WebhookEndpoint, WebhookSettings, WebhookSettingsError};
use crate::store::GemStore;

/// Components of a sender.
#[derive(Debug)]
pub struct WebhookParts {
    pub store: Arc<GemStore>,
    pub settings: WebhookSettings,
    pub clock: Clock,
    pub metrics: WebhookMetrics,
    /// Stops the sender, which first waits for the attempt in progress.
    pub shutdown: ShutdownToken,
}

/// Sends events until shutdown. To change the settings, stop it and start another one.
#[derive(Debug)]
pub struct WebhookSender {
    parts: Arc<Parts>,
}

/// Data that all endpoints share.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) store: Arc<GemStore>,
    pub(super) settings: WebhookSettings,
    pub(super) clock: Clock,
    pub(super) metrics: WebhookMetrics,
    pub(super) shutdown: ShutdownToken,
    /// Identifies this sender among all, including those of other processes.
    pub(super) holder: String,
}

impl WebhookSender {
    /// Creates a sender. It sends nothing until [`run`](WebhookSender::run) is called.
    ///
    /// # Errors
    /// Fails if the settings contradict each other.
    pub fn new(parts: WebhookParts) -> Result<Self, WebhookSettingsError> {
        let WebhookParts { store, settings, clock, metrics, shutdown } = parts;
        settings.check()?;
        let settings = settings.within_reason();
        let holder = format!("{:032x}", fastrand::u128(..));
        Ok(Self { parts: Arc::new(Parts { store, settings, clock, metrics, shutdown, holder }) })
    }

    /// Sends events until shutdown.
    pub fn run(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if !self.announce().await {
                return;
            }
            if self.parts.settings.endpoints.is_empty() {
                // Without endpoints there is nothing to poll for.
                return self.parts.shutdown.requested().await;
            }
            let mut senders = JoinSet::new();
            for endpoint in &self.parts.settings.endpoints {
                senders.spawn(self.delivery(endpoint).run());
            }
            while !self.parts.shutdown.is_requested() {
                self.show().await;
                self.pause().await;
            }
            while let Some(ended) = senders.join_next().await {
                if let Err(error) = ended {
                    tracing::error!(%error, "the sender of a gems webhook has panicked");
                }
            }
        })
    }

    fn delivery(&self, endpoint: &WebhookEndpoint) -> WebhookDelivery<EndpointOutbox> {
        let WebhookEndpoint { name, url, .. } = endpoint;
        let settings = &self.parts.settings;
        let receiver = Receiver::new(url.clone(), Arc::new(settings.client_settings()));
        WebhookDelivery::new(
            EndpointOutbox::new(Arc::clone(&self.parts), endpoint.clone()),
            Box::new(receiver),
            self.parts.metrics.delivery.clone(),
            (settings.retry_delay_min, settings.retry_delay_max),
            format!("gems to {name} ({url})"),
        )
    }

    /// Registers the endpoints in the store, retrying until the store is available. Returns false
    /// on shutdown.
    async fn announce(&self) -> bool {
        let Parts { store, settings, .. } = &*self.parts;
        let names: Vec<_> = settings.endpoints.iter().map(|it| it.name.clone()).collect();
        let events_max = settings.limits.events_max;
        while !self.parts.shutdown.is_requested() {
            match store.set_webhook_endpoints(names.clone(), events_max).await {
                Ok(()) => return true,
                // There are no endpoints, so this is not urgent.
                Err(error) if settings.endpoints.is_empty() => {
                    tracing::debug!(%error, "that there are no gems webhooks is not stored yet");
                }
                Err(error) => tracing::warn!(%error, "gems webhooks can't begin; trying again"),
            }
            self.pause().await;
        }
        false
    }

    /// Updates the gauges.
    async fn show(&self) {
        let now = self.parts.clock.now();
        match self.parts.store.webhook_endpoints().await {
            Ok(states) => states.iter().for_each(|state| self.parts.metrics.shows(state, now)),
            // The senders report this error.
            Err(error) => tracing::debug!(%error, "the state of gems webhooks is not known"),
        }
    }

    async fn pause(&self) {
        tokio::select! {
            () = sleep(self.parts.settings.poll_interval) => {}
            () = self.parts.shutdown.requested() => {}
        }
    }
}
