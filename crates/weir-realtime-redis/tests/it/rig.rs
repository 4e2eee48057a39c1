//! A node without sockets: a hub, its log, and the node's task. Live views stand for subscribers.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use serde_json::value::RawValue;
use tempfile::TempDir;
use tokio::time::timeout;
use weir_base::clock::Clock;
use weir_base::secret::Secret;
use weir_base::semaphore::Semaphore;
use weir_base::shutdown::ShutdownToken;
use weir_base::switchboard::Switchboard;
use weir_realtime::hub::{Hub, HubParts};
use weir_realtime::measure::ManualCore;
use weir_realtime::metrics::RealtimeMetrics;
use weir_realtime::operations::{EventPublished, OperationError, PublishEvent};
use weir_realtime::pusher::position::ChannelPosition;
use weir_realtime::pusher::socket_id::SocketId;
use weir_realtime::settings::{AppSettings, Settings};
use weir_realtime::shared_log::{
    AppendError, ChannelKey, ClientBroadcast, LogEvent, NewEvent, SharedLog as _,
};
use weir_realtime::view::EventView;
use weir_realtime::watch::Watch;
use weir_realtime::webhooks::{
    AppHooks, ExtraHeaders, Kinds, WebhookEndpoint, WebhookMetrics, WebhookSettings, WebhookWorker,
    Webhooks,
};
use weir_realtime_redis::{
    LogParts, LogTotals, NodeOptions, RedisLogMetrics, RedisLogSettings, ShardJoining,
    ShardOptions, ShardedLog,
};
use weir_redis::RedisEndpoint;

fn options() -> NodeOptions {
    let name = format!("{:012x}", fastrand::u64(..1 << 48));
    NodeOptions { name, console: "http://weir-1:7420".to_owned() }
}

pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Node {
    pub(crate) hub: Arc<Hub>,
    pub(crate) log: Arc<ShardedLog>,
    /// The node's only core, which clients connect to.
    pub(crate) core: ManualCore,
    pub(crate) switches: Switchboard,
    metrics: RedisLogMetrics,
    registry: Registry,
    shutdown: ShutdownToken,
    /// It never runs, so no webhook is ever settled.
    _webhooks: WebhookWorker,
    _folder: TempDir,
}

impl Node {
    pub(crate) fn start(port: u16) -> Self {
        Self::start_at(RedisEndpoint::parse(&format!("redis://127.0.0.1:{port}")).unwrap())
    }

    pub(crate) fn start_at(endpoint: RedisEndpoint) -> Self {
        Self::start_with(endpoint, settings())
    }

    pub(crate) fn start_with(endpoint: RedisEndpoint, settings: RedisLogSettings) -> Self {
        Self::start_with_app(endpoint, settings, app())
    }

    /// Starts a node that serves this app.
    pub(crate) fn start_with_app(
        endpoint: RedisEndpoint,
        settings: RedisLogSettings,
        app: AppSettings,
    ) -> Self {
        let shard =
            ShardOptions { name: endpoint.to_string(), endpoint, joining: ShardJoining::No };
        Self::start_parts(vec![shard], settings, app)
    }

    /// Starts a node with these shards.
    pub(crate) fn start_on(shards: Vec<ShardOptions>, settings: RedisLogSettings) -> Self {
        Self::start_parts(shards, settings, app())
    }

    fn start_parts(
        shards: Vec<ShardOptions>,
        settings: RedisLogSettings,
        app: AppSettings,
    ) -> Self {
        let mut registry = Registry::default();
        let metrics = RedisLogMetrics::register(&mut registry);
        let log = ShardedLog::new(LogParts {
            shards,
            settings,
            metrics: metrics.clone(),
            node: options(),
        });
        let (hub, webhooks) = hub(&mut registry, &log, app);
        let shutdown = ShutdownToken::new();
        let (folder, switches) = switchboard(&hub);
        for node in log.nodes(&hub, Some(&switches), &shutdown) {
            shutdown.spawn(node.run());
        }
        let core = ManualCore::of_hub(Arc::clone(&hub));
        Self {
            hub,
            log,
            core,
            switches,
            metrics,
            registry,
            shutdown,
            _webhooks: webhooks,
            _folder: folder,
        }
    }

    pub(crate) fn totals(&self) -> LogTotals {
        self.metrics.totals()
    }

    /// Stops the node, and waits until it has ended.
    pub(crate) async fn stop(&self) {
        timeout(DEADLINE, self.shutdown.drain(DEADLINE)).await.expect("the node ends in time");
    }

    /// Returns the value of a metric with these labels.
    pub(crate) fn metric(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
        text.lines().find_map(value)
    }

    /// Opens a live view, and waits until the channel's position is known.
    pub(crate) async fn watch(&self, channel: &str) -> Viewer {
        let watch = self.hub.watch("1", channel).unwrap();
        loop_until(async || self.hub.held_channel(&key(channel))?.position).await;
        Viewer { watch, pending: Vec::new() }
    }

    pub(crate) async fn try_publish(
        &self,
        channel: &str,
        data: u64,
    ) -> Result<EventPublished, OperationError> {
        let event = PublishEvent {
            app: "1".to_owned(),
            channel: channel.to_owned(),
            event: "e".to_owned(),
            data: RawValue::from_string(format!("\"{data}\"")).unwrap(),
        };
        self.hub.publish_event(&event).await
    }

    /// Publishes an event, again until Redis has accepted it. Its key makes it appear once.
    pub(crate) async fn publish(&self, channel: &str, data: u64) -> String {
        loop_until(async || self.append(channel, data).await).await
    }

    /// Publishes an event on several channels at once, again until Redis has accepted it.
    pub(crate) async fn publish_all(&self, channels: &[&str], data: u64) {
        loop_until(async || self.append_all(channels, data).await).await;
    }

    async fn append(&self, channel: &str, data: u64) -> Option<String> {
        Some(self.append_all(&[channel], data).await?.remove(0).to_string())
    }

    async fn append_all(&self, channels: &[&str], data: u64) -> Option<Vec<ChannelPosition>> {
        self.try_append_all(channels, data).await.ok()
    }

    pub(crate) async fn try_append_all(
        &self,
        channels: &[&str],
        data: u64,
    ) -> Result<Vec<ChannelPosition>, AppendError> {
        let new = |channel: &&str| NewEvent {
            idempotency_key: Some(format!("key-{data}").into()),
            ..new_event(channel, data.to_string())
        };
        self.log.append(channels.iter().map(new).collect()).await
    }

    /// Returns the name of the node's first shard.
    pub(crate) fn log_name(&self) -> String {
        self.log.shards().remove(0).name
    }

    /// Returns why the node can't use its first shard.
    pub(crate) fn log_problem(&self) -> Option<String> {
        self.log.shards().remove(0).problem
    }

    /// Waits for this many heartbeats.
    pub(crate) async fn heartbeats(&self, count: u64) {
        let target = self.totals().heartbeats + count;
        loop_until(async || (self.totals().heartbeats >= target).then_some(())).await;
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown.request();
    }
}

/// What a subscriber of a channel receives.
pub(crate) struct Viewer {
    watch: Watch,
    pending: Vec<EventView>,
}

impl Viewer {
    pub(crate) async fn next(&mut self) -> EventView {
        self.next_within(DEADLINE).await
    }

    pub(crate) async fn next_within(&mut self, wait_max: Duration) -> EventView {
        while self.pending.is_empty() {
            let next = timeout(wait_max, self.watch.next()).await.expect("an event in time");
            assert_eq!(next.dropped, 0, "the view is too small for the test");
            self.pending = next.events;
        }
        self.pending.remove(0)
    }

    pub(crate) async fn next_data(&mut self) -> String {
        let event = self.next().await;
        assert_eq!(event.event, "e", "{event:?}");
        event.data
    }
}

pub(crate) fn new_event(channel: &str, data: String) -> NewEvent {
    NewEvent {
        key: key(channel),
        event: LogEvent { name: "e".into(), data: data.into(), except: None },
        idempotency_key: None,
        cache_age: None,
        history: AppSettings::new("1", "key", Secret::new("s")).history,
    }
}

pub(crate) fn client_event(channel: &str, data: &str) -> ClientBroadcast {
    ClientBroadcast {
        key: key(channel),
        name: "client-e".into(),
        data: Some(data.into()),
        sender: SocketId { first: 1, second: 2 },
        user_id: None,
    }
}

pub(crate) fn settings() -> RedisLogSettings {
    RedisLogSettings { timeout: Duration::from_millis(500), ..RedisLogSettings::default() }
}

pub(crate) fn key(channel: &str) -> ChannelKey {
    ChannelKey { app: "1".into(), channel: channel.into() }
}

/// Waits until a node stores no subscriptions and members, or stores them again.
pub(crate) async fn until_suspended(node: &Node, is_suspended: bool) {
    let name = node.log_name();
    let name = format!("weir_realtime_redis_presence_suspended{{shard=\"{name}\"}}");
    let expected = u8::from(is_suspended).to_string();
    loop_until(async || (node.metric(&name)? == expected).then_some(())).await;
}

/// Tries until there is a result.
pub(crate) async fn loop_until<T>(attempt: impl AsyncFn() -> Option<T>) -> T {
    let trying = async {
        loop {
            if let Some(result) = attempt().await {
                return result;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, trying).await.expect("it happens in time")
}

fn switchboard(hub: &Hub) -> (TempDir, Switchboard) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switches.json");
    (folder, Switchboard::open(Arc::clone(hub.switches()), Clock::system(), path))
}

/// What the names of channels with webhooks begin with.
pub(crate) const HOOKED: &str = "hooked";

pub(crate) fn app() -> AppSettings {
    let mut app = AppSettings::new("1", "key", Secret::new("secret"));
    app.has_subscription_counts = true;
    let endpoint = WebhookEndpoint {
        url: "http://127.0.0.1:1/".parse().unwrap(),
        kinds: Kinds::ALL,
        channel_prefix: HOOKED.into(),
        headers: ExtraHeaders::default(),
    };
    let hooks = AppHooks::clone(&app.hooks);
    app.hooks = Arc::new(AppHooks { endpoints: vec![Arc::new(endpoint)], ..hooks });
    app
}

fn hub(
    registry: &mut Registry,
    log: &Arc<ShardedLog>,
    app: AppSettings,
) -> (Arc<Hub>, WebhookWorker) {
    let clock = Clock::system();
    let (webhooks, worker) = Webhooks::start(
        WebhookSettings::default(),
        clock.clone(),
        WebhookMetrics::register(registry),
        Arc::new(Semaphore::new("webhooks", "webhooks_in_flight_max", 1)),
        ShutdownToken::new(),
    );
    let mut settings = Settings::default();
    settings.limits.watch_events_max = 10_000;
    settings.limits.watchers_max = 10_000;
    let hub = Hub::new(HubParts {
        tracer: Default::default(),
        cores: 1,
        settings,
        apps: vec![app],
        clock,
        metrics: RealtimeMetrics::register(registry),
        webhooks,
        log: Some(Arc::<ShardedLog>::clone(log)),
    });
    (hub, worker)
}
