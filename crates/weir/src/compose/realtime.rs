//! Realtime: what its cores share, and who is told.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_base::semaphore::{self, Semaphore};
use weir_base::shutdown::{Drained, ShutdownToken};
use weir_base::switchboard::Switchboard;
use weir_net::server::{CoreIndex, Pulse};
use weir_realtime::hub::{Hub, HubParts};
use weir_realtime::metrics::RealtimeMetrics;
use weir_realtime::shard::Shard;
use weir_realtime::webhooks::{WebhookMetrics, Webhooks};

use weir_config::Settings;

/// Realtime, for cores to serve.
#[derive(Debug)]
pub(super) struct Realtime {
    hub: Arc<Hub>,
    switches: Switchboard,
    in_flight: Arc<Semaphore>,
    /// Says that connections are to be closed.
    draining: CancellationToken,
    webhooks: ShutdownToken,
    histories: PathBuf,
}

impl Realtime {
    /// For so many cores. `draining`: connections are to be closed.
    pub(super) async fn start(
        settings: &Settings,
        cores: usize,
        registry: &mut Registry,
        clock: &Clock,
        draining: CancellationToken,
    ) -> Self {
        let in_flight = in_flight(settings, registry);
        let webhooks = ShutdownToken::new();
        let hub = hub(settings, cores, registry, clock, Arc::clone(&in_flight), &webhooks);
        let histories = settings.data_dir.join(HISTORIES);
        restore(&hub, &histories).await;
        let switches =
            Switchboard::open(Arc::clone(hub.switches()), clock.clone(), settings.switches_file());
        Self { hub, switches, in_flight, draining, webhooks, histories }
    }

    /// Makes a core's part, on the core.
    pub(super) fn shards(
        &self,
    ) -> impl Fn(CoreIndex) -> Rc<Shard> + Send + Sync + Clone + use<> + 'static {
        let (hub, draining) = (Arc::clone(&self.hub), self.draining.clone());
        move |core| Shard::new(Arc::clone(&hub), core.0, draining.clone())
    }

    /// What operators see and do.
    pub(super) fn for_operators(&self) -> weir_admin::realtime::Realtime {
        let (hub, switches) = (Arc::clone(&self.hub), self.switches.clone());
        weir_admin::realtime::Realtime { hub, switches }
    }

    /// Puts new settings in force.
    pub(super) fn reload(&self, settings: &Settings) {
        let realtime = &settings.realtime;
        self.in_flight.set_limit(realtime.settings.limits.webhooks_in_flight_max);
        let (settings, apps) = settings.realtime_in_effect();
        self.hub.reload(settings, apps);
    }

    /// Whether there is any app.
    pub(super) fn has_apps(&self) -> bool {
        self.hub.has_apps()
    }

    /// Saves the histories for the process that goes on with them. Nothing is published here from
    /// now on; `cores` are those that may be publishing at this moment.
    pub(super) async fn hand_over(&self, cores: &Pulse) {
        self.hub.hand_over();
        // Who was publishing has finished when its core answers; this thread runs this.
        let _ = cores.silent(TURN_PATIENCE).await;
        let (hub, histories) = (Arc::clone(&self.hub), self.histories.clone());
        match tokio::task::spawn_blocking(move || hub.save(&histories)).await {
            Ok(Ok(saved)) => tracing::debug!(?saved, "histories saved"),
            Ok(Err(error)) => tracing::warn!("histories are lost: {error}"),
            Err(error) => tracing::error!(%error, "histories are lost"),
        }
    }

    /// Sends what the applications' servers are to be told, at most for `time_left`. To be called
    /// when the cores have ended.
    pub(super) async fn finish(self, time_left: Duration) {
        let Self { hub, switches, webhooks, .. } = self;
        // The worker goes on as long as somebody may tell it something.
        drop((hub, switches));
        if let Drained::DeadlinePassed { .. } = webhooks.drain(time_left).await {
            tracing::warn!("unsent webhooks are lost: the shutdown deadline has passed");
        }
    }
}

/// A core that is busy for longer hangs, and publishes nothing.
const TURN_PATIENCE: Duration = Duration::from_secs(1);

/// Histories of the end before, for clients that recover. Without them they load anew.
async fn restore(hub: &Arc<Hub>, histories: &Path) {
    let (hub, histories) = (Arc::clone(hub), histories.to_owned());
    match tokio::task::spawn_blocking(move || hub.restore(&histories)).await {
        Ok(Ok(saved)) => tracing::debug!(?saved, "histories restored"),
        Ok(Err(error)) => tracing::warn!("{error}"),
        Err(error) => tracing::error!(%error, "histories start empty"),
    }
}

/// How many webhooks are on their way at once.
fn in_flight(settings: &Settings, registry: &mut Registry) -> Arc<Semaphore> {
    let limit = settings.realtime.settings.limits.webhooks_in_flight_max;
    let in_flight = Arc::new(Semaphore::new("webhooks", IN_FLIGHT_MAX, limit));
    let registry = registry.sub_registry_with_prefix("weir");
    semaphore::register(registry, vec![Arc::clone(&in_flight)]);
    in_flight
}

/// In data_dir, from a graceful end to the next start.
const HISTORIES: &str = "realtime-histories";
const IN_FLIGHT_MAX: &str = "realtime.limits.webhooks_in_flight_max";

/// What the cores share; `webhooks` runs what tells the applications' servers.
fn hub(
    settings: &Settings,
    cores: usize,
    registry: &mut Registry,
    clock: &Clock,
    in_flight: Arc<Semaphore>,
    webhooks: &ShutdownToken,
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
    })
}
