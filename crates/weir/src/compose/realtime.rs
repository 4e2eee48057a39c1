//! Realtime: the cores with their sockets, what they share, and who is told.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use weir_base::clock::Clock;
use weir_base::semaphore::{self, Semaphore};
use weir_base::shutdown::{Drained, Shutdown};
use weir_net::server::{self, CoreIndex, CoreListener, Ended, Limits, Outcome, Pulse, Start, Stop};
use weir_net::{ListenAddress, Listener, NetMetrics, Tls};
use weir_realtime::hub::{Hub, Parts};
use weir_realtime::metrics::RealtimeMetrics;
use weir_realtime::shard::Shard;
use weir_realtime::switchboard::Switchboard;
use weir_realtime::webhooks::{WebhookMetrics, Webhooks};
use weir_supervisor::inherited::Inherited;

use super::end::End;
use crate::config::Settings;
use crate::front::Front;
use crate::parent::{FRONT, REALTIME, of_core};
use crate::realtime_admin;

/// Realtime, running.
#[derive(Debug)]
pub(super) struct Realtime {
    hub: Arc<Hub>,
    switches: Switchboard,
    limits: Arc<ArcSwap<Limits>>,
    tls: Option<Arc<Tls>>,
    in_flight: Arc<Semaphore>,
    /// Says that connections are to be closed.
    draining: CancellationToken,
    stop: Stop,
    webhooks: Shutdown,
    histories: PathBuf,
    addresses: Addresses,
    pulse: Pulse,
    cores: End<Outcome>,
}

/// Where it listens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) front: Option<SocketAddr>,
    pub(crate) realtime: Option<SocketAddr>,
}

/// What is left to do when nobody publishes any more.
#[derive(Debug)]
pub(super) struct Left {
    hub: Arc<Hub>,
    webhooks: Shutdown,
    histories: PathBuf,
}

impl Realtime {
    /// Serves the sockets of the cores. None: there are none.
    pub(super) async fn start(
        settings: &Settings,
        inherited: &mut Inherited,
        registry: &mut Registry,
        clock: &Clock,
    ) -> anyhow::Result<Option<Self>> {
        let (front, own) = (sockets(inherited, FRONT)?, sockets(inherited, REALTIME)?);
        let sockets = front.len().max(own.len());
        if sockets == 0 {
            return Ok(None);
        }
        // The parent's sockets are those of its start; the settings may be newer.
        let count = settings.front.cores().min(sockets);
        let tls = settings.front.tls.clone().map(Tls::load).transpose().context("front.tls")?;
        let tls = tls.map(Arc::new);
        let in_flight = in_flight(settings, registry);
        let webhooks = Shutdown::new();
        let hub = hub(settings, count, registry, clock, Arc::clone(&in_flight), &webhooks);
        let histories = settings.data_dir.join(HISTORIES);
        restore(&hub, &histories).await;
        let switches = Switchboard::open(Arc::clone(&hub), settings.switches_file());
        let limits = Arc::new(ArcSwap::from_pointee(settings.front.limits.clone()));
        let draining = CancellationToken::new();
        let stop = Stop {
            graceful: CancellationToken::new(),
            at_once: CancellationToken::new(),
            deadline: settings.shutdown_deadline,
        };
        let addresses = Addresses { front: address(&front), realtime: address(&own) };
        let running = server::start(Start {
            listeners: listeners([(front, tls.clone()), (own, None)]),
            cores: count,
            limits: Arc::clone(&limits),
            clock: clock.clone(),
            metrics: NetMetrics::register(registry),
            service: core(&hub, &draining),
            stop: stop.clone(),
        })?;
        let pulse = running.pulse();
        let cores = End::of(running.join());
        Ok(Some(Self {
            hub,
            switches,
            limits,
            tls,
            in_flight,
            draining,
            stop,
            webhooks,
            histories,
            addresses,
            pulse,
            cores,
        }))
    }

    /// What operators see and do.
    pub(super) fn for_operators(&self) -> realtime_admin::Realtime {
        let (hub, switches) = (Arc::clone(&self.hub), self.switches.clone());
        realtime_admin::Realtime { hub, switches }
    }

    /// Where it listens.
    pub(super) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Resolves when it has ended by itself.
    pub(super) async fn ended(&mut self) -> String {
        let outcome = self.cores.wait().await;
        format!("the cores of the front ended by themselves: {outcome:?}")
    }

    /// The cores that do not answer within `patience`, as the log calls them.
    pub(super) async fn silent(&self, patience: Duration) -> Vec<String> {
        let silent = self.pulse.silent(patience).await;
        silent.into_iter().map(|core| format!("core {core} of the front")).collect()
    }

    /// Puts new settings in force.
    pub(super) fn reload(&self, settings: &Settings) -> anyhow::Result<()> {
        if let Some(tls) = &self.tls {
            tls.reload().context("front.tls: the certificate of before stays")?;
        }
        let realtime = &settings.realtime;
        self.limits.store(Arc::new(settings.front.limits.clone()));
        self.in_flight.set_limit(realtime.webhooks.in_flight_max);
        self.hub.reload(realtime.settings.clone(), realtime.apps.clone());
        Ok(())
    }

    /// What is left to do once it has stopped and nobody else publishes.
    pub(super) fn left(&self) -> Left {
        Left {
            hub: Arc::clone(&self.hub),
            webhooks: self.webhooks.clone(),
            histories: self.histories.clone(),
        }
    }

    /// Ends the cores: connections are closed, spread over the drain window, and requests in hand
    /// are answered, at most for `deadline` (zero: all is cut at once).
    pub(super) async fn stop(self, deadline: Duration) -> anyhow::Result<()> {
        if deadline.is_zero() {
            self.stop.at_once.cancel();
        }
        self.draining.cancel();
        self.stop.graceful.cancel();
        match self.cores.into_outcome().await.ended {
            Ended::Clean => {}
            Ended::Cut { connections } => {
                tracing::warn!(connections, "connections to the front cut off");
            }
            Ended::Panicked { core } => bail!("core {core} of the front panicked"),
        }
        Ok(())
    }
}

impl Left {
    /// Saves the histories and sends what the applications' servers are to be told, at most for
    /// `time_left` (zero: neither).
    pub(super) async fn finish(self, time_left: Duration) {
        let Self { hub, webhooks, histories } = self;
        if !time_left.is_zero() {
            let saving = tokio::task::spawn_blocking(move || hub.save(&histories));
            match saving.await {
                Ok(Ok(saved)) => tracing::debug!(?saved, "histories saved"),
                Ok(Err(error)) => tracing::warn!("histories are lost: {error}"),
                Err(error) => tracing::error!(%error, "histories are lost"),
            }
        }
        // Only now: the worker goes on as long as somebody may tell it something.
        if let Drained::DeadlinePassed { .. } = webhooks.drain(time_left).await {
            tracing::warn!("webhooks that were not sent yet are lost: no time is left");
        }
    }
}

/// Histories of the end before, for clients that recover. Without them they load anew.
async fn restore(hub: &Arc<Hub>, histories: &Path) {
    let (hub, histories) = (Arc::clone(hub), histories.to_owned());
    match tokio::task::spawn_blocking(move || hub.restore(&histories)).await {
        Ok(Ok(saved)) => tracing::debug!(?saved, "histories restored"),
        Ok(Err(error)) => tracing::warn!("{error}"),
        Err(error) => tracing::error!(%error, "histories begin anew"),
    }
}

/// How many webhooks are on their way at once.
fn in_flight(settings: &Settings, registry: &mut Registry) -> Arc<Semaphore> {
    let limit = settings.realtime.webhooks.in_flight_max;
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
    webhooks: &Shutdown,
) -> Arc<Hub> {
    let realtime = &settings.realtime;
    let (handle, worker) = Webhooks::start(
        realtime.webhooks.settings.clone(),
        clock.clone(),
        WebhookMetrics::register(registry),
        in_flight,
        webhooks.clone(),
    );
    webhooks.spawn(worker.run());
    Hub::new(Parts {
        cores,
        settings: realtime.settings.clone(),
        apps: realtime.apps.clone(),
        clock: clock.clone(),
        metrics: RealtimeMetrics::register(registry),
        webhooks: handle,
    })
}

/// Makes a core's service.
fn core(
    hub: &Arc<Hub>,
    draining: &CancellationToken,
) -> impl Fn(CoreIndex) -> Rc<Front> + Send + Sync + Clone + 'static {
    let (hub, draining) = (Arc::clone(hub), draining.clone());
    move |core| Rc::new(Front::new(Shard::new(Arc::clone(&hub), core.0, draining.clone())))
}

fn address(sockets: &[Listener]) -> Option<SocketAddr> {
    match sockets.first()?.address().ok()? {
        ListenAddress::Tcp(address) => Some(address),
        ListenAddress::Unix(_) => None,
    }
}

fn listeners<const N: usize>(groups: [(Vec<Listener>, Option<Arc<Tls>>); N]) -> Vec<CoreListener> {
    let groups = groups.into_iter().filter(|(sockets, _)| !sockets.is_empty());
    groups.map(|(sockets, tls)| CoreListener { sockets, tls }).collect()
}

/// The sockets of a group, in the order of the cores.
fn sockets(inherited: &mut Inherited, group: &str) -> anyhow::Result<Vec<Listener>> {
    let mut sockets = Vec::new();
    loop {
        let name = of_core(group, sockets.len());
        let Some(descriptor) = inherited.take(&name) else { return Ok(sockets) };
        sockets.push(Listener::adopt(&name, descriptor)?);
    }
}
