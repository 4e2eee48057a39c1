//! State that all cores share: the apps, the cores' mailboxes, the broker and the settings.

mod app_channels;
mod connections;
mod counts;
mod durable;
mod members;
mod publish;
mod shared;
mod shared_webhooks;
pub(crate) mod single_core;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use weir_base::clock::Clock;
use weir_base::switch::Switches;
use weir_traces::Tracer;

pub use self::shared::HeldChannel;
use crate::app::{App, Apps};
pub use crate::broker::PublishError;
use crate::broker::{LocalBroker, NodeBroker};
use crate::channel::Registry;
pub use crate::channel::TooManyChannels;
pub use crate::cores::CoreBusy;
use crate::cores::{CoreMessage, Cores};
use crate::metrics::RealtimeMetrics;
use crate::removed_apps::RemovedApps;
use crate::settings::{AppSettings, Settings};
use crate::shared_log::SharedLog;
use crate::webhooks::Webhooks;

/// The realtime server without its sockets.
#[derive(Debug)]
pub struct Hub {
    pub(crate) cores: Arc<Cores>,
    pub(crate) broker: NodeBroker,
    pub(crate) clock: Clock,
    pub(crate) metrics: RealtimeMetrics,
    pub(crate) webhooks: Webhooks,
    pub(crate) tracer: Tracer,
    settings: ArcSwap<Settings>,
    apps: ArcSwap<Apps>,
    /// Apps that the log still has subscriptions of.
    removed_apps: RemovedApps,
    /// Number of live views, over all channels.
    pub(crate) watchers: AtomicUsize,
    /// Set once another process continues the histories.
    is_handed_over: AtomicBool,
}

/// The parts from which [`Hub::new`] builds a hub.
#[derive(Debug)]
pub struct HubParts {
    /// Number of cores.
    pub cores: usize,
    /// The settings of the realtime server.
    pub settings: Settings,
    /// The apps.
    pub apps: Vec<AppSettings>,
    /// The clock.
    pub clock: Clock,
    /// The metrics.
    pub metrics: RealtimeMetrics,
    /// Sends webhooks to the applications' servers.
    pub webhooks: Webhooks,
    /// The log that this node shares with others.
    pub log: Option<Arc<dyn SharedLog>>,
    /// Traces publications.
    pub tracer: Tracer,
}

impl Hub {
    /// Returns a hub without channels or connections.
    #[must_use]
    pub fn new(parts: HubParts) -> Arc<Self> {
        let HubParts { cores, settings, apps, clock, metrics, webhooks, log, tracer } = parts;
        let limits = &settings.limits;
        let cores = Cores::new(cores, limits.core_queue_events_max, limits.core_queue_bytes_max);
        let cores = Arc::new(cores);
        let local = LocalBroker::new(
            Arc::clone(&cores),
            clock.clone(),
            metrics.clone(),
            limits,
            log.clone(),
        );
        let broker = NodeBroker { local: Arc::new(local), log, durable: OnceLock::new() };
        Arc::new(Self {
            cores,
            broker,
            clock,
            metrics,
            webhooks,
            tracer,
            settings: ArcSwap::from_pointee(settings),
            apps: ArcSwap::from_pointee(Apps::new(apps, &Apps::default())),
            removed_apps: RemovedApps::default(),
            watchers: AtomicUsize::new(0),
            is_handed_over: AtomicBool::new(false),
        })
    }

    /// Returns the present settings.
    pub(crate) fn settings(&self) -> Guard<Arc<Settings>> {
        self.settings.load()
    }

    /// Replaces settings and apps. Closes the connections of apps that were removed or disabled.
    pub fn reload(&self, settings: Settings, apps: Vec<AppSettings>) {
        let limits = &settings.limits;
        for core in self.cores.iter() {
            core.budget.set_limits(limits.core_queue_events_max, limits.core_queue_bytes_max);
        }
        self.broker.local.set_limits(limits);
        let durable_queue_bytes_max = limits.durable_queue_bytes_max;
        self.settings.store(Arc::new(settings));
        let before = self.apps.load_full();
        let after = Arc::new(Apps::new(apps, &before));
        self.apps.store(Arc::clone(&after));
        for app in before.iter() {
            let is_there = after.by_id(&app.settings().id).is_some();
            if !is_there {
                self.broker.local.forget_histories(app);
                if self.broker.log.is_some() {
                    self.removed_apps.add(app);
                }
            }
            if !is_there || !app.settings().is_enabled {
                self.send_to_all(|| CoreMessage::CloseApp { app: app.number });
            }
        }
        if let Some(durable) = self.broker.durable.get() {
            durable.reload(durable_queue_bytes_max);
        }
    }

    /// Returns the app with this key, which its clients send.
    pub(crate) fn app_by_key(&self, key: &str) -> Option<Arc<App>> {
        self.apps.load().by_key(key).cloned()
    }

    /// Returns the app with this id.
    pub(crate) fn app_by_id(&self, id: &str) -> Option<Arc<App>> {
        self.apps.load().by_id(id).cloned()
    }

    /// Returns all apps.
    pub(crate) fn apps(&self) -> Vec<Arc<App>> {
        self.apps.load().iter().cloned().collect()
    }

    /// Rejects events of servers from now on, so that the histories can be saved for the next
    /// process. A publication in progress may still finish, before its core's task yields.
    pub fn hand_over(&self) {
        self.is_handed_over.store(true, Ordering::SeqCst);
    }

    /// Returns whether the next process has taken over.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::SeqCst)
    }

    /// Returns whether any app is configured.
    pub fn has_apps(&self) -> bool {
        self.apps.load().iter().next().is_some()
    }

    /// Removes expired data from one part of every app's channels. Callers pass each number below
    /// [`Hub::expiry_parts`] in turn.
    pub(crate) fn remove_expired(&self, part: usize) {
        for app in self.apps().into_iter().chain(self.removed_apps.all()) {
            self.broker.local.remove_expired(&app, part);
        }
        self.removed_apps.forget_unused();
    }

    /// Returns the switches that suppress events by name: events of servers, of clients, and of the
    /// protocol (`pusher_internal:member_*`).
    #[must_use]
    pub fn switches(&self) -> &Arc<Switches> {
        &self.cores.switches
    }

    /// Returns the number of parts to pass to [`Hub::remove_expired`].
    pub(crate) const fn expiry_parts() -> usize {
        Registry::parts()
    }

    fn send_to_all(&self, message: impl Fn() -> CoreMessage) {
        for core in self.cores.iter() {
            core.mailbox.push(message());
        }
    }
}
