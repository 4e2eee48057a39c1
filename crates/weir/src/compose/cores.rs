//! The cores: the sockets of the front, of realtime and of gems, TLS, and the threads that serve them.

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
    self, CoreIndex, CoreListener, DrainOutcome, HttpServerLimits, Pulse, ServerOptions,
    ServerOutcome, ServerStop,
};
use weir_net::tls::Agreed;
use weir_net::{ListenAddress, Listener, NetMetrics, Successor, Tls, TlsSettings};
use weir_supervisor::inherited::Inherited;

use super::end::End;
use crate::front::Front;
use crate::parent::{FRONT, GEMS, REALTIME, of_core};
use weir_config::Settings;

/// The sockets that the cores are to serve.
#[derive(Debug)]
pub(super) struct Sockets {
    front: Vec<Listener>,
    realtime: Vec<Listener>,
    gems: Vec<Listener>,
    tls: Certificates,
}

/// Those of the sockets that have some.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    pub(super) front: Option<Arc<Tls>>,
    pub(super) gems: Option<Arc<Tls>>,
}

/// The cores, running.
#[derive(Debug)]
pub(super) struct Cores {
    limits: Arc<ArcSwap<HttpServerLimits>>,
    tls: Certificates,
    stop: ServerStop,
    addresses: Addresses,
    pulse: Pulse,
    running: End<ServerOutcome>,
}

impl Sockets {
    /// Those that the parent handed over. None: there are none.
    pub(super) fn take(
        settings: &Settings,
        inherited: &mut Inherited,
        certificates: &TlsMetrics,
    ) -> anyhow::Result<Option<Self>> {
        let front = group(inherited, FRONT)?;
        let realtime = group(inherited, REALTIME)?;
        let gems = group(inherited, GEMS)?;
        if front.is_empty() && realtime.is_empty() && gems.is_empty() {
            return Ok(None);
        }
        let load = |name, tls: &Option<TlsSettings>| {
            let load = |tls| Tls::load(tls, Agreed::Http, certificates.of(name)).map(Arc::new);
            tls.clone().map(load).transpose().context(name)
        };
        let tls = Certificates {
            front: load("front.tls", &settings.front.tls)?,
            gems: load("gems.tls", &settings.gems.tls)?,
        };
        Ok(Some(Self { front, realtime, gems, tls }))
    }

    /// How many cores can serve them: the parent's sockets are those of its start, the settings may
    /// be newer.
    pub(super) fn cores(&self, settings: &Settings) -> usize {
        settings.front.cores().min(self.front.len().max(self.realtime.len()).max(self.gems.len()))
    }

    /// Whether realtime is at any of them.
    pub(super) fn have_realtime(&self) -> bool {
        !self.front.is_empty() || !self.realtime.is_empty()
    }

    /// Which of the listeners is the front's.
    pub(super) fn front_listener(&self) -> Option<usize> {
        (!self.front.is_empty()).then_some(0)
    }

    /// The same for gems.
    pub(super) fn gems_listener(&self) -> Option<usize> {
        let before = usize::from(!self.front.is_empty()) + usize::from(!self.realtime.is_empty());
        (!self.gems.is_empty()).then_some(before)
    }
}

impl Cores {
    /// Serves the sockets, each core with what `service` makes for it.
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
        let pulse = running.pulse();
        let running = End::of(running.join());
        Ok(Self { limits, tls, stop, addresses, pulse, running })
    }

    /// Their certificates.
    pub(super) fn tls(&self) -> &Certificates {
        &self.tls
    }

    /// Where they listen.
    pub(super) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Resolves when they have ended by themselves.
    pub(super) async fn ended(&mut self) -> String {
        let outcome = self.running.wait().await;
        format!("the cores of the front ended unexpectedly: {outcome:?}")
    }

    /// Those that do not answer within `patience`, as the log calls them.
    pub(super) async fn silent(&self, patience: Duration) -> Vec<String> {
        let silent = self.pulse.silent(patience).await;
        silent.into_iter().map(|core| format!("core {core} of the front")).collect()
    }

    /// Puts new settings in force.
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

    /// Another process, as one of this machine reaches it.
    pub(super) fn successor(&self) -> Successor {
        let Addresses { front, realtime, .. } = self.addresses;
        let tls = front.filter(|_| self.tls.front.is_some());
        let plain = front.filter(|_| self.tls.front.is_none());
        Successor::at(plain.or(realtime), tls)
    }

    /// How long requests that are on their way when they end are waited for.
    pub(super) fn last_request_timeout(&self) -> Duration {
        self.limits.load().last_request_timeout
    }

    /// How long a connection may wait for its next request.
    pub(super) fn idle_timeout(&self) -> Duration {
        self.limits.load().idle_timeout
    }

    /// Nobody new: another process serves the sockets. Connections end with their next response.
    pub(super) fn drain(&self) {
        self.stop.drain.cancel();
    }

    /// Resolves when the last connection of a drain has gone.
    pub(super) async fn drained(&mut self) {
        self.running.wait().await;
    }

    /// The way to ask whether they turn.
    pub(super) fn pulse(&self) -> Pulse {
        self.pulse.clone()
    }

    /// Ends them: nobody new, and requests in hand are answered, at most for `deadline` (zero: all
    /// is cut at once). Who holds connections open for long is told by itself.
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

/// The sockets of a group, in the order of the cores.
fn group(inherited: &mut Inherited, group: &str) -> anyhow::Result<Vec<Listener>> {
    let mut sockets = Vec::new();
    loop {
        let name = of_core(group, sockets.len());
        let Some(descriptor) = inherited.take(&name) else { return Ok(sockets) };
        sockets.push(Listener::adopt(&name, descriptor)?);
    }
}
