//! The service's side of apps whose workers accept connections themselves: which worker accepted a
//! probe, the load that workers report, and the repair of stale records.

mod metrics;
mod owner;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use prometheus_client::registry::Registry;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};
use weir_admin::workers::{SharedApp, SharedApps};
use weir_base::clock::Timestamp;
use weir_supervisor::inherited::Inherited;
use weir_supervisor::selection::busy::BusyState;
use weir_supervisor::selection::{Selection, SocketGroup};

use self::metrics::AppMetrics;
pub(crate) use self::metrics::SocketMetrics;
use self::owner::Owner;
use crate::parent;
use weir_config::{App, Settings};

/// First and longest pause between checks whether a connection was accepted.
const ACCEPT_POLL_MIN: Duration = Duration::from_millis(1);
const ACCEPT_POLL_MAX: Duration = Duration::from_millis(100);
/// The first byte of a probe, sent at once: with `TCP_DEFER_ACCEPT` (unicorn) a connection without
/// data is never accepted. Every request that follows begins with it.
pub(crate) const BEGUN: &str = "G";
/// First and longest pause between attempts to be accepted by the right worker: it may take long to
/// load, and the others have requests to process.
const PAUSE: Duration = Duration::from_millis(25);
const PAUSE_MAX: Duration = Duration::from_millis(400);
/// Limit of connections that are held open during further attempts, so that other workers accept
/// those.
const HELD_MAX: usize = 64;
/// Maximum time for which they are held while the next one is not accepted.
const HOLD_MAX: Duration = Duration::from_millis(100);
/// A listening socket on this machine accepts at once unless its backlog is full.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(200);

/// All such apps, by their names.
#[derive(Debug, Default)]
pub(crate) struct SocketApps(BTreeMap<String, SocketApp>);

/// An app whose workers accept connections themselves.
#[derive(Debug)]
pub(crate) struct SocketApp {
    group: SocketGroup,
    /// The address of its workers.
    listen: SocketAddr,
    wanted: Selection,
    claim_timeout: Duration,
    metrics: AppMetrics,
    /// Serializes steered connects. tokio's, because it is held across the connect.
    steering: tokio::sync::Mutex<()>,
    /// Serializes holding connections. tokio's, because it is held during that time.
    holding: tokio::sync::Mutex<()>,
    /// Since when workers, by their records, are chosen without having begun. std's, because it is
    /// held only during a check.
    claimed: Mutex<BTreeMap<usize, Timestamp>>,
}

impl SharedApps for SocketApps {
    fn all(&self) -> Vec<(&str, &dyn SharedApp)> {
        self.iter().map(|(name, app)| (name.as_str(), app as &dyn SharedApp)).collect()
    }
}

/// A worker of such an app.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketWorker {
    pub(crate) slot: usize,
    pub(crate) pid: i32,
    pub(crate) record: usize,
}

impl SocketApps {
    /// Takes the apps whose sockets were inherited. An app with invalid descriptors is left out;
    /// its workers serve anyway.
    pub(crate) fn take(
        settings: &Settings,
        inherited: &mut Inherited,
        registry: &mut Registry,
    ) -> Self {
        let mut metrics = None;
        let mut apps = BTreeMap::new();
        for app in &settings.front.apps {
            let adopted = parent::adopt(app, |name| inherited.take(name)).transpose();
            let Some(group) = adopted else { continue };
            let name = &app.settings.name;
            let metrics =
                metrics.get_or_insert_with(|| SocketMetrics::register(registry)).for_app(name);
            match group.and_then(|group| SocketApp::new(app, group, metrics)) {
                Ok(app) => drop(apps.insert(name.clone(), app)),
                Err(error) => {
                    tracing::error!(app = name, "its workers can't be watched: {error:#}")
                }
            }
        }
        Self(apps)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&SocketApp> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &SocketApp)> {
        self.0.iter()
    }
}

impl SocketApp {
    fn new(app: &App, group: SocketGroup, metrics: AppMetrics) -> anyhow::Result<Self> {
        let shared = app.sockets.as_ref().context("it has no mode = \"sockets\"")?;
        Ok(Self {
            listen: parent::address(&group)?,
            group,
            wanted: shared.selection,
            claim_timeout: shared.claim_timeout,
            metrics,
            steering: tokio::sync::Mutex::default(),
            holding: tokio::sync::Mutex::default(),
            claimed: Mutex::default(),
        })
    }

    /// Returns the number of connections that wait to be accepted.
    pub(crate) fn waiting(&self) -> usize {
        let sockets = 0..self.group.plan().sockets();
        let waiting = sockets.filter_map(|socket| self.group.waiting(socket).ok());
        waiting.map(|count| count as usize).sum()
    }

    /// Returns the load that a worker reports.
    pub(crate) fn state(&self, socket_worker: &SocketWorker) -> BusyState {
        self.group.records().state(socket_worker.record)
    }

    /// Returns the sockets that a worker listens on, without duplicates.
    pub(crate) fn sockets(&self, slot: usize) -> Vec<usize> {
        let mut sockets = self.group.plan().slice(slot);
        sockets.sort_unstable();
        sockets.dedup();
        sockets
    }

    /// Returns whether no connection waits on a socket of this worker alone: other workers accept
    /// those on shared sockets.
    pub(crate) fn can_leave(&self, socket_worker: &SocketWorker, others: &[SocketWorker]) -> bool {
        let is_shared =
            |socket: &usize| others.iter().any(|other| self.sockets(other.slot).contains(socket));
        let exclusive =
            self.sockets(socket_worker.slot).into_iter().filter(|socket| !is_shared(socket));
        // An error must not keep the worker from leaving.
        exclusive.into_iter().all(|socket| self.group.waiting(socket).is_ok_and(|count| count == 0))
    }

    /// Marks workers idle that were chosen but never received the connection, and updates metrics.
    pub(crate) fn repair_stale_claims(&self, ready: &[SocketWorker], now: Timestamp) {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        claimed
            .retain(|record, _| ready.iter().any(|socket_worker| socket_worker.record == *record));
        for socket_worker in ready {
            if self.state(socket_worker) != BusyState::Claimed {
                claimed.remove(&socket_worker.record);
                continue;
            }
            let since = *claimed.entry(socket_worker.record).or_insert(now);
            let is_timed_out = now.since(since) >= self.claim_timeout;
            if is_timed_out
                && self.has_nothing_to_accept(socket_worker)
                && self.group.records().repair(socket_worker.record)
            {
                claimed.remove(&socket_worker.record);
                self.metrics.repaired();
                tracing::debug!(
                    pid = socket_worker.pid,
                    "was chosen for a connection and never began; idle again"
                );
            }
        }
        self.update_metrics(ready);
    }

    fn has_nothing_to_accept(&self, socket_worker: &SocketWorker) -> bool {
        let socket_number = self.group.plan().socket_for(socket_worker.slot);
        socket_number.is_none_or(|socket| self.group.waiting(socket).is_ok_and(|count| count == 0))
    }

    fn update_metrics(&self, ready: &[SocketWorker]) {
        let ages = ready.iter().filter_map(|socket_worker| match self.state(socket_worker) {
            BusyState::Busy(age) => Some(age),
            BusyState::Idle | BusyState::Claimed => None,
        });
        let ages: Vec<Duration> = ages.collect();
        self.metrics.update(&ages, self.waiting());
    }

    /// Connects to that socket until this very worker accepts the connection, and returns it with
    /// [`BEGUN`] sent.
    pub(crate) async fn connect(&self, socket: usize, socket_worker: SocketWorker) -> TcpStream {
        let (mut held_max, mut pause) = (1, PAUSE);
        loop {
            let connected = match held_max {
                1 => self.connect_to_any_worker(socket, socket_worker).await,
                _ => self.connect_past_others(socket, socket_worker, held_max).await,
            };
            if let Some(stream) = connected {
                return stream;
            }
            sleep(pause).await;
            (held_max, pause) = ((held_max * 2).min(HELD_MAX), (pause * 2).min(PAUSE_MAX));
        }
    }

    /// Connects once. None: another worker accepted the connection.
    async fn connect_to_any_worker(
        &self,
        socket: usize,
        socket_worker: SocketWorker,
    ) -> Option<TcpStream> {
        let stream = self.connect_once(socket).await.ok()?;
        (wait_for_owner(&stream, socket_worker.pid).await == Owner::Worker).then_some(stream)
    }

    /// Holds connections that other workers accept, so that the next one reaches another worker:
    /// the kernel may prefer the same worker repeatedly. Only one probe of an app at a time, since
    /// each would hold the worker that another one needs.
    async fn connect_past_others(
        &self,
        socket: usize,
        socket_worker: SocketWorker,
        held_max: usize,
    ) -> Option<TcpStream> {
        let _guard = self.holding.lock().await;
        let mut held = Vec::new();
        while held.len() < held_max {
            let stream = self.connect_once(socket).await.ok()?;
            match timeout(HOLD_MAX, wait_for_owner(&stream, socket_worker.pid)).await {
                Ok(Owner::Worker) => return Some(stream),
                Ok(Owner::Other) => held.push(stream),
                Ok(Owner::NotAccepted | Owner::Closed) | Err(_) => return None,
            }
        }
        None
    }

    async fn connect_once(&self, socket: usize) -> std::io::Result<TcpStream> {
        let target = self.local_address();
        let client = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // The source address, by which the connection is steered, must be known before.
        client.bind(SocketAddr::new(target.ip(), 0))?;
        let _guard = self.steering.lock().await;
        self.group.direct(client.local_addr()?, socket)?;
        let mut stream = timeout(CONNECT_TIMEOUT, client.connect(target)).await??;
        stream.write_all(BEGUN.as_bytes()).await?;
        Ok(stream)
    }

    /// Returns the address of the sockets on this machine.
    fn local_address(&self) -> SocketAddr {
        let ip = match self.listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.listen.port())
    }
}

impl SharedApp for SocketApp {
    fn listen(&self) -> SocketAddr {
        self.listen
    }

    fn selection(&self) -> String {
        let effective = self.group.plan().effective();
        if effective == self.wanted {
            return effective.name().to_owned();
        }
        format!("{} ({} was refused)", effective.name(), self.wanted.name())
    }

    fn addresses(&self, slot: usize) -> String {
        let numbers: Vec<String> = self.sockets(slot).iter().map(ToString::to_string).collect();
        match numbers.as_slice() {
            [queue] => format!("{} (queue {queue})", self.listen),
            queues => format!("{} (queues {})", self.listen, queues.join(", ")),
        }
    }

    fn waiting(&self) -> usize {
        SocketApp::waiting(self)
    }

    fn state(&self, record: usize) -> BusyState {
        self.group.records().state(record)
    }

    fn served(&self, record: usize) -> u64 {
        self.group.records().served(record)
    }
}

/// Waits until `stream` is accepted, and returns whether the worker accepted it. If that cannot be
/// determined, assumes so.
async fn wait_for_owner(stream: &TcpStream, pid: i32) -> Owner {
    let (Ok(client), Ok(server)) = (stream.local_addr(), stream.peer_addr()) else {
        return Owner::Closed;
    };
    let mut pause = ACCEPT_POLL_MIN;
    loop {
        match owner::find_owner(client, server, pid) {
            Ok(Owner::NotAccepted) => {
                sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_POLL_MAX);
            }
            Ok(owner) => return owner,
            Err(error) => {
                tracing::warn!(%error, "the kernel does not tell who accepts a connection; any worker will do");
                return Owner::Worker;
            }
        }
    }
}
