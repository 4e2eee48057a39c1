//! What all cores share: the apps, the ways to the cores, the rules that every publisher keeps.

pub(crate) mod alone;
mod broadcast;
mod cores;
mod direct;
mod mailbox;
mod publish;
mod room;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};
use weir_base::clock::Clock;
use weir_base::switch::Switches;

pub(crate) use self::broadcast::{Audience, Broadcast, ChannelId, Direct, EventKey, Letter, What};
pub(crate) use self::cores::Cores;
pub(crate) use self::publish::Event;
pub use self::room::CoreBusy;
pub(crate) use self::room::Reservation;
use crate::app::{App, Apps};
pub use crate::channel::TooManyChannels;
use crate::channel::{Channel, Registry};
use crate::metrics::{Limit, RealtimeMetrics};
use crate::pusher::channel::ChannelName;
use crate::settings::{AppSettings, Settings};
use crate::webhooks::Webhooks;

/// Realtime, without its sockets.
#[derive(Debug)]
pub struct Hub {
    pub(crate) cores: Cores,
    pub(crate) clock: Clock,
    pub(crate) metrics: RealtimeMetrics,
    pub(crate) webhooks: Webhooks,
    settings: ArcSwap<Settings>,
    apps: ArcSwap<Apps>,
    next_channel: AtomicU64,
    history_bytes: AtomicUsize,
    /// Of all channels.
    pub(crate) watchers: AtomicUsize,
    /// Somebody else goes on with the histories.
    is_handed_over: AtomicBool,
}

/// What a hub is made of.
#[derive(Debug)]
pub struct Parts {
    /// How many cores there are.
    pub cores: usize,
    /// Realtime's settings.
    pub settings: Settings,
    /// The apps.
    pub apps: Vec<AppSettings>,
    /// The time.
    pub clock: Clock,
    /// What is counted.
    pub metrics: RealtimeMetrics,
    /// Who is told.
    pub webhooks: Webhooks,
}

/// Why an event was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A core has enough to do.
    #[error("{0}")]
    Busy(#[from] CoreBusy),
    /// The channel is not there, and no more may be made.
    #[error("{0}")]
    TooManyChannels(#[from] TooManyChannels),
    /// The next process goes on with the histories.
    #[error("this process has handed over to the next one; try again")]
    HandedOver,
}

impl Hub {
    /// A hub with nothing on it.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Self> {
        let Parts { cores, settings, apps, clock, metrics, webhooks } = parts;
        let limits = &settings.limits;
        let cores = Cores::new(cores, limits.core_queue_events_max, limits.core_queue_bytes_max);
        Arc::new(Self {
            cores,
            clock,
            metrics,
            webhooks,
            settings: ArcSwap::from_pointee(settings),
            apps: ArcSwap::from_pointee(Apps::new(apps, &Apps::default())),
            next_channel: AtomicU64::new(1),
            history_bytes: AtomicUsize::new(0),
            watchers: AtomicUsize::new(0),
            is_handed_over: AtomicBool::new(false),
        })
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Guard<Arc<Settings>> {
        self.settings.load()
    }

    /// Puts other settings and apps in force. Connections of apps that are gone or off are closed.
    pub fn reload(&self, settings: Settings, apps: Vec<AppSettings>) {
        let limits = &settings.limits;
        for core in self.cores.iter() {
            core.room.set_limits(limits.core_queue_events_max, limits.core_queue_bytes_max);
        }
        self.settings.store(Arc::new(settings));
        let before = self.apps.load_full();
        let after = Arc::new(Apps::new(apps, &before));
        self.apps.store(Arc::clone(&after));
        for app in before.iter() {
            let is_there = after.by_id(&app.settings().id).is_some();
            if !is_there {
                self.forget_histories(app);
            }
            if !is_there || !app.settings().is_enabled {
                self.tell_all(|| Letter::CloseApp { app: Arc::clone(app) });
            }
        }
    }

    /// Of an app that is gone: nobody tidies its channels any more.
    fn forget_histories(&self, app: &App) {
        for channel in app.channels.with_prefix("") {
            self.add_history_bytes(channel.forget_history());
        }
    }

    /// The app whose clients have this key.
    pub(crate) fn app_by_key(&self, key: &str) -> Option<Arc<App>> {
        self.apps.load().by_key(key).cloned()
    }

    /// The app with this id.
    pub(crate) fn app_by_id(&self, id: &str) -> Option<Arc<App>> {
        self.apps.load().by_id(id).cloned()
    }

    /// All apps.
    pub(crate) fn apps(&self) -> Vec<Arc<App>> {
        self.apps.load().iter().cloned().collect()
    }

    /// From now on nothing is published here any more: the histories are to be saved for the process
    /// that goes on with them. Who is publishing at this moment may still finish: that takes no
    /// longer than a turn of their core.
    pub fn hand_over(&self) {
        self.is_handed_over.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::SeqCst)
    }

    /// Whether there is any app.
    pub fn has_apps(&self) -> bool {
        self.apps.load().iter().next().is_some()
    }

    /// The channel, made if it is not there.
    pub(crate) fn channel(
        &self,
        app: &App,
        name: &ChannelName,
    ) -> Result<Arc<Channel>, TooManyChannels> {
        let max = self.settings().limits.channels_max;
        let made = app.channels.get_or_make(name, max, || {
            let id = ChannelId(self.next_channel.fetch_add(1, Ordering::Relaxed));
            let cache = Arc::clone(&app.cache);
            Channel::new(id, name.clone(), self.cores.len(), cache, self.clock.now())
        });
        made.inspect_err(|_| self.metrics.limit_hit(Limit::Channels))
    }

    /// Forgets what is too old in the histories of one part of every app's channels. To be called
    /// with the numbers below [`Hub::tidy_parts`], in turn.
    pub(crate) fn tidy(&self, part: usize) {
        let now = self.clock.now();
        for app in self.apps() {
            let change = app.channels.tidy_part(part, &app.settings(), now);
            self.add_history_bytes(change);
            self.bound_cache(&app);
        }
    }

    /// Drops the oldest events of cache channels while there are more bytes of them than may be.
    pub(crate) fn bound_cache(&self, app: &App) {
        let max = app.settings().cache_bytes_max;
        while let Some((channel, place)) = app.cache.take_beyond(max) {
            self.metrics.limit_hit(Limit::CacheBytes);
            if let Some(channel) = app.channels.get(channel.as_str()) {
                channel.forget_cached(place);
            }
        }
    }

    /// What is not sent at the moment, by names of events: of servers, of clients, and of the
    /// protocol (`pusher_internal:member_*`).
    #[must_use]
    pub const fn switches(&self) -> &Arc<Switches> {
        &self.cores.switches
    }

    /// How many parts there are to tidy.
    pub(crate) const fn tidy_parts() -> usize {
        Registry::parts()
    }

    /// Bytes of all histories.
    pub(crate) fn add_history_bytes(&self, change: isize) -> usize {
        // Two's complement: adding a negative figure subtracts.
        let change = change.cast_unsigned();
        self.history_bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }

    /// Bytes of all histories.
    pub(crate) fn history_bytes(&self) -> usize {
        self.history_bytes.load(Ordering::Relaxed)
    }

    fn tell_all(&self, letter: impl Fn() -> Letter) {
        for core in self.cores.iter() {
            core.mailbox.push(letter());
        }
    }
}
