//! The cores: the sockets of the front, of realtime and of gems, TLS, and the threads that serve
//! them.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use weir_admin::status::Addresses;
use weir_base::clock::Clock;
use weir_net::metrics::TlsMetrics;
use weir_net::server::{
    self, CoreIndex, CoreListener, DrainOutcome, HttpServerLimits, LivenessProbe, ServerOptions,
    ServerOutcome, ServerStop,
};
use weir_net::tls::AlpnProtocols;
use weir_net::{ListenAddress, Listener, NetMetrics, Successor, Tls, TlsSettings};
use weir_supervisor::inherited::Inherited;

use super::completion::Completion;
use crate::front::Front;
use crate::parent::{FRONT, GEMS, REALTIME, core_socket_name};
use weir_config::Settings;

/// The sockets that the cores serve.
#[derive(Debug)]
pub(super) struct Sockets {
    front: Vec<Listener>,
    realtime: Vec<Listener>,
    gems: Vec<Listener>,
    tls: Certificates,
}

/// The TLS state of the sockets that have a certificate.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    pub(super) front: Option<Arc<Tls>>,
    pub(super) gems: Option<Arc<Tls>>,
}

/// The running cores.
#[derive(Debug)]
pub(super) struct Cores {
    limits: Arc<ArcSwap<HttpServerLimits>>,
    tls: Certificates,
    stop: ServerStop,
    addresses: Addresses,
    liveness: LivenessProbe,
    running: Completion<ServerOutcome>,
}

impl Sockets {
    /// Takes the inherited sockets. None: there are none.
    pub(super) fn take(
        settings: &Settings,
        inherited: &mut Inherited,
        certificates: &TlsMetrics,
    ) -> anyhow::Result<Option<Self>> {
        let front = take_group(inherited, FRONT)?;
        let realtime = take_group(inherited, REALTIME)?;
        let gems = take_group(inherited, GEMS)?;
        if front.is_empty() && realtime.is_empty() && gems.is_empty() {
            return Ok(None);
        }
        let load = |name, tls: &Option<TlsSettings>| {
            let load = |tls| {
                Tls::load(tls, AlpnProtocols::Http, certificates.for_listener(name)).map(Arc::new)
            };
            tls.clone().map(load).transpose().context(name)
        };
        let tls = Certificates {
            front: load("front.tls", &settings.front.tls)?,
            gems: load("gems.tls", &settings.gems.tls)?,
        };
        Ok(Some(Self { front, realtime, gems, tls }))
    }

    /// Returns the number of cores that can serve them: the parent bound the sockets at its start,
    /// and the settings may be newer.
    pub(super) fn cores(&self, settings: &Settings) -> usize {
        settings.front.cores().min(self.front.len().max(self.realtime.len()).max(self.gems.len()))
    }

    /// Returns whether any socket serves realtime.
    pub(super) fn have_realtime(&self) -> bool {
        !self.front.is_empty() || !self.realtime.is_empty()
    }

    /// Returns the index of the front's listener.
    pub(super) fn front_listener(&self) -> Option<usize> {
        (!self.front.is_empty()).then_some(0)
    }

    /// Returns the index of the gems' listener.
    pub(super) fn gems_listener(&self) -> Option<usize> {
        let preceding =
            usize::from(!self.front.is_empty()) + usize::from(!self.realtime.is_empty());
        (!self.gems.is_empty()).then_some(preceding)
    }
}

impl Cores {
    /// Serves the sockets with a service that `service` creates for each core.
    pub(super) fn start<F>(
        settings: &Settings,
        sockets: Sockets,
        registry: &mut Registry,
        clock: &Clock,
        service: F,
    ) -> anyhow::Result<Self>
    where
        F: Fn(CoreIndex) -> Rc<Front> + Send + Sync + Clone + 'static,
    {
        let cores = sockets.cores(settings);
        let Sockets { front, realtime, gems, tls } = sockets;
        let limits = Arc::new(ArcSwap::from_pointee(settings.front.limits.clone()));
        let stop = ServerStop::within(settings.shutdown_deadline);
        let addresses = Addresses {
            front: address(&front),
            realtime: address(&realtime),
            gems: address(&gems),
        };
        let running = server::start(ServerOptions {
            listeners: listeners([
                (front, tls.front.clone()),
                (realtime, None),
                (gems, tls.gems.clone()),
            ]),
            cores,
            limits: Arc::clone(&limits),
            clock: clock.clone(),
            metrics: NetMetrics::register(registry),
            trusted_proxies: settings.front.trusted_proxies.clone().into(),
            service,
            stop: stop.clone(),
        })?;
        let liveness = running.liveness();
        let running = Completion::new(running.join());
        Ok(Self { limits, tls, stop, addresses, liveness, running })
    }

    /// Returns their TLS state.
    pub(super) fn tls(&self) -> &Certificates {
        &self.tls
    }

    /// Returns their listening addresses.
    pub(super) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Resolves when they have ended by themselves.
    pub(super) async fn ended(&mut self) -> String {
        let outcome = self.running.wait().await;
        format!("the cores of the front ended unexpectedly: {outcome:?}")
    }

    /// Returns the log names of cores that do not respond within `timeout`.
    pub(super) async fn unresponsive(&self, timeout: Duration) -> Vec<String> {
        let unresponsive = self.liveness.unresponsive(timeout).await;
        unresponsive.into_iter().map(|core| format!("core {core} of the front")).collect()
    }

    /// Applies new settings.
    pub(super) fn reload(&self, settings: &Settings) -> anyhow::Result<()> {
        if let Some(tls) = &self.tls.front {
            tls.reload().context("front.tls: the previous certificate stays in use")?;
        }
        if let Some(tls) = &self.tls.gems {
            tls.reload().context("gems.tls: the previous certificate stays in use")?;
        }
        self.limits.store(Arc::new(settings.front.limits.clone()));
        Ok(())
    }

    /// Returns the addresses at which a process of this machine reaches the next service process.
    pub(super) fn successor(&self) -> Successor {
        let Addresses { front, realtime, .. } = self.addresses;
        let tls = front.filter(|_| self.tls.front.is_some());
        let plain = front.filter(|_| self.tls.front.is_none());
        Successor::new(plain.or(realtime), tls)
    }

    /// Returns how long a shutdown waits for requests that are still arriving.
    pub(super) fn last_request_timeout(&self) -> Duration {
        self.limits.load().last_request_timeout
    }

    /// Returns how long a connection may wait for its next request.
    pub(super) fn idle_timeout(&self) -> Duration {
        self.limits.load().idle_timeout
    }

    /// Accepts no new connections, which another process serves. Connections end with their next
    /// response.
    pub(super) fn drain(&self) {
        self.stop.drain.cancel();
    }

    /// Resolves when the last connection of a drain has ended.
    pub(super) async fn drained(&mut self) {
        self.running.wait().await;
    }

    /// Returns the handle to check whether the cores respond.
    pub(super) fn liveness(&self) -> LivenessProbe {
        self.liveness.clone()
    }

    /// Stops the cores: accepts no new connections and finishes requests in progress within
    /// `deadline` (zero: cut off at once). Long-lived connections are notified separately.
    pub(super) async fn stop(self, deadline: Duration) -> anyhow::Result<()> {
        if deadline.is_zero() {
            self.stop.at_once.cancel();
        }
        self.stop.graceful.cancel();
        match self.running.into_outcome().await.ended {
            DrainOutcome::Clean => {}
            DrainOutcome::Cut { connections } => {
                tracing::warn!(
                    connections,
                    "closed connections to the front that were still open at the shutdown deadline"
                );
            }
            DrainOutcome::Panicked { core } => bail!("core {core} of the front panicked"),
        }
        Ok(())
    }
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

/// Takes the sockets of a group, in the order of the cores.
fn take_group(inherited: &mut Inherited, group: &str) -> anyhow::Result<Vec<Listener>> {
    let mut sockets = Vec::new();
    loop {
        let name = core_socket_name(group, sockets.len());
        let Some(descriptor) = inherited.take(&name) else { return Ok(sockets) };
        sockets.push(Listener::adopt(&name, descriptor)?);
    }
}
