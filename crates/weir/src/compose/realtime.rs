//! Realtime: the state that its cores share, and its webhooks.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_base::node::node_name;
use weir_base::semaphore::{self, Semaphore};
use weir_base::shutdown::{Drained, ShutdownToken};
use weir_base::switchboard::Switchboard;
use weir_net::server::{CoreIndex, LivenessProbe};
use weir_realtime::hub::{Hub, HubParts};
use weir_realtime::metrics::RealtimeMetrics;
use weir_realtime::shard::Shard;
use weir_realtime::shared_log::SharedLog;
use weir_realtime::webhooks::{WebhookMetrics, Webhooks};
use weir_realtime_redis::{LogParts, NodeOptions, RedisLogMetrics, ShardedLog};
use weir_traces::Tracer;

use weir_config::Settings;

/// Realtime, for the cores to serve.
#[derive(Debug)]
pub(super) struct Realtime {
    hub: Arc<Hub>,
    switches: Switchboard,
    in_flight: Arc<Semaphore>,
    /// Cancelled to close connections.
    draining: CancellationToken,
    webhooks: ShutdownToken,
    histories: PathBuf,
    backup_file: Arc<Mutex<PathBuf>>,
}

impl Realtime {
    /// Starts realtime for `cores` cores. `draining` is cancelled to close connections.
    pub(super) async fn start(
        settings: &Settings,
        cores: usize,
        registry: &mut Registry,
        clock: &Clock,
        draining: CancellationToken,
        tracer: Tracer,
    ) -> anyhow::Result<Self> {
        let in_flight = webhook_limit(settings, registry);
        let webhooks = ShutdownToken::new();
        let log = create_log(settings, registry)?;
        let shared = log.clone().map(|log| log as Arc<dyn SharedLog>);
        let parts = (Arc::clone(&in_flight), shared);
        let hub = create_hub(settings, cores, registry, clock, parts, (&webhooks, tracer));
        let histories = settings.histories_file();
        open_histories(&hub, settings).await?;
        let switches =
            Switchboard::open(Arc::clone(hub.switches()), clock.clone(), settings.switches_file());
        for node in log.iter().flat_map(|log| log.nodes(&hub, Some(&switches), &webhooks)) {
            webhooks.spawn(node.run());
        }
        if let Some(log) = &log {
            // Otherwise the first clients would be refused, although a process that is replaced still serves them.
            log.wait_connected(CONNECT_WAIT).await;
        }
        let backup_file = Arc::new(Mutex::new(settings.backup_histories_file()));
        Ok(Self { hub, switches, in_flight, draining, webhooks, histories, backup_file })
    }

    /// Returns a function that creates a core's shard, to be called on the core.
    pub(super) fn shards(
        &self,
    ) -> impl Fn(CoreIndex) -> Rc<Shard> + Send + Sync + Clone + use<> + 'static {
        let (hub, draining) = (Arc::clone(&self.hub), self.draining.clone());
        move |core| Shard::new(Arc::clone(&hub), core.0, draining.clone())
    }

    /// Returns the handles for the admin API and the console.
    pub(super) fn admin_handles(&self) -> weir_admin::realtime::Realtime {
        weir_admin::realtime::Realtime {
            hub: Arc::clone(&self.hub),
            switches: self.switches.clone(),
            backup_file: Arc::clone(&self.backup_file),
        }
    }

    /// Applies new settings.
    pub(super) fn reload(&self, settings: &Settings) {
        let realtime = &settings.realtime;
        self.in_flight.set_limit(realtime.settings.limits.webhooks_in_flight_max);
        let (settings, apps) = settings.realtime_in_effect();
        self.hub.reload(settings, apps);
    }

    /// Returns whether there is any app.
    pub(super) fn has_apps(&self) -> bool {
        self.hub.has_apps()
    }

    /// Saves the histories for the next process. This process publishes nothing from now on;
    /// `cores` may still be publishing at this moment.
    pub(super) async fn hand_over(&self, cores: &LivenessProbe) {
        self.hub.hand_over();
        // A core that responds has finished publishing; this thread runs this.
        let _ = cores.unresponsive(CORES_TIMEOUT).await;
        let (hub, histories) = (Arc::clone(&self.hub), self.histories.clone());
        let saving = tokio::task::spawn_blocking(move || {
            hub.close_durable_histories();
            hub.save(&histories)
        });
        match saving.await {
            Ok(Ok(saved)) => tracing::debug!(?saved, "histories saved"),
            Ok(Err(error)) => tracing::warn!("histories are lost: {error}"),
            Err(error) => tracing::error!(%error, "histories are lost"),
        }
    }

    /// Sends the remaining webhooks within `time_left`. Call it when the cores have ended.
    pub(super) async fn finish(self, time_left: Duration) {
        let Self { hub, switches, webhooks, .. } = self;
        // The webhook task runs as long as a sender of events exists.
        drop((hub, switches));
        if let Drained::DeadlinePassed { .. } = webhooks.drain(time_left).await {
            tracing::warn!("unsent webhooks are lost: the shutdown deadline has passed");
        }
    }
}

/// How long the start waits for Redis.
const CONNECT_WAIT: Duration = Duration::from_secs(1);
/// A core that is busy for longer hangs, and publishes nothing.
const CORES_TIMEOUT: Duration = Duration::from_secs(1);

/// Restores the histories of the previous process for clients that recover.
async fn open_histories(hub: &Arc<Hub>, settings: &Settings) -> anyhow::Result<()> {
    let hub = Arc::clone(hub);
    let (folder, file) = (settings.durable_histories_folder(), settings.histories_file());
    let opening = tokio::task::spawn_blocking(move || hub.open_histories(&folder, &file));
    let restored = opening.await.context("histories can't be restored")??;
    tracing::debug!(?restored, "histories restored");
    Ok(())
}

/// Creates the limit of concurrent webhooks.
fn webhook_limit(settings: &Settings, registry: &mut Registry) -> Arc<Semaphore> {
    let limit = settings.realtime.settings.limits.webhooks_in_flight_max;
    let in_flight = Arc::new(Semaphore::new("webhooks", IN_FLIGHT_MAX, limit));
    let registry = registry.sub_registry_with_prefix("weir");
    semaphore::register(registry, vec![Arc::clone(&in_flight)]);
    in_flight
}

const IN_FLIGHT_MAX: &str = "realtime.limits.webhooks_in_flight_max";

/// Creates the state that the cores share; `webhooks` runs the webhook task.
fn create_hub(
    settings: &Settings,
    cores: usize,
    registry: &mut Registry,
    clock: &Clock,
    (in_flight, log): (Arc<Semaphore>, Option<Arc<dyn SharedLog>>),
    (webhooks, tracer): (&ShutdownToken, Tracer),
) -> Arc<Hub> {
    let realtime = &settings.realtime;
    let (handle, worker) = Webhooks::start(
        realtime.webhooks.clone(),
        clock.clone(),
        WebhookMetrics::register(registry),
        in_flight,
        webhooks.clone(),
    );
    webhooks.spawn(worker.run());
    let (settings, apps) = settings.realtime_in_effect();
    Hub::new(HubParts {
        cores,
        settings,
        apps,
        clock: clock.clone(),
        metrics: RealtimeMetrics::register(registry),
        webhooks: handle,
        log,
        tracer,
    })
}

/// Creates the log that nodes share, if one is configured.
fn create_log(
    settings: &Settings,
    registry: &mut Registry,
) -> anyhow::Result<Option<Arc<ShardedLog>>> {
    let shards = settings.realtime.redis_shards.clone();
    if shards.is_empty() {
        return Ok(None);
    }
    let file = settings.node_file();
    let name = node_name(&file);
    let name = name.with_context(|| format!("cannot read or write {}", file.display()))?;
    let node = NodeOptions { name, console: settings.console.address().unwrap_or_default() };
    let (settings, metrics) =
        (settings.realtime.redis.clone(), RedisLogMetrics::register(registry));
    Ok(Some(ShardedLog::new(LogParts { shards, settings, metrics, node })))
}
