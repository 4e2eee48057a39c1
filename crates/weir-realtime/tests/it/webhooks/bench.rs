//! A worker with its handle, on the test's runtime.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use weir_base::clock::{Clock, Timestamp};
use weir_base::secret::Secret;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;
use weir_realtime::pusher::webhook::WebhookEvent;
use weir_realtime::webhooks::{
    AppHooks, ExtraHeaders, Kinds, WebhookEndpoint, WebhookMetrics, WebhookSettings, Webhooks,
};

pub(super) struct Bench {
    webhooks: Webhooks,
    app: Arc<AppHooks>,
    registry: Registry,
    shutdown: ShutdownToken,
    worker: JoinHandle<()>,
}

/// What a scrape shows after the end.
pub(super) struct Scraped(String);

impl Bench {
    /// One app with these endpoints, each wanting everything; retries come soon.
    pub(super) fn start(urls: &[&str], change: impl FnOnce(&mut WebhookSettings)) -> Self {
        let mut settings = WebhookSettings {
            retry_delay_min: Duration::from_millis(1),
            retry_delay_max: Duration::from_millis(20),
            ..WebhookSettings::default()
        };
        change(&mut settings);
        let (mut registry, shutdown) = (Registry::default(), ShutdownToken::new());
        let metrics = WebhookMetrics::register(&mut registry);
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let semaphore = Semaphore::new("webhooks", "realtime.limits.webhooks_in_flight_max", 8);
        let semaphore = Arc::new(semaphore);
        let (webhooks, worker) =
            Webhooks::start(settings, clock, metrics, semaphore, shutdown.clone());
        let worker = shutdown.spawn(worker.run());
        Self { webhooks, app: Arc::new(app(urls)), registry, shutdown, worker }
    }

    pub(super) fn endpoint(&mut self, index: usize, change: impl FnOnce(&mut WebhookEndpoint)) {
        let app = Arc::get_mut(&mut self.app).expect("nothing was told yet");
        change(Arc::get_mut(&mut app.endpoints[index]).expect("nothing was told yet"));
    }

    pub(super) fn publish(&self, event: &WebhookEvent<'_>) {
        self.webhooks.enqueue(&self.app, event);
    }

    /// Drops the handle and waits until everything is sent.
    pub(super) async fn end(self) -> Scraped {
        drop(self.webhooks);
        self.worker.await.unwrap();
        scrape(&self.registry)
    }

    /// Asks for the end while handles are left.
    pub(super) async fn shut_down(self) -> Scraped {
        self.shutdown.request();
        self.worker.await.unwrap();
        scrape(&self.registry)
    }
}

fn app(urls: &[&str]) -> AppHooks {
    let endpoint = |url: &&str| WebhookEndpoint {
        url: url.parse().unwrap(),
        kinds: Kinds::ALL,
        channel_prefix: "".into(),
        headers: ExtraHeaders::default(),
    };
    let endpoints = urls.iter().map(|url| Arc::new(endpoint(url))).collect();
    let secret = Secret::new("secret");
    AppHooks { app_id: "1".into(), key: "key".into(), secret, endpoints }
}

fn scrape(registry: &Registry) -> Scraped {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    Scraped(text)
}

impl Scraped {
    /// The value of one line, by its name without `weir_realtime_webhook_`.
    pub(super) fn get(&self, name: &str) -> usize {
        let value = self.0.lines().find_map(|line| {
            line.strip_prefix("weir_realtime_webhook_")?.strip_prefix(name)?.strip_prefix(' ')
        });
        value.unwrap_or_else(|| panic!("{name} is not in {}", self.0)).parse().unwrap()
    }
}
