//! The broker of a single node: all channels are in the memory of this process, and each channel's
//! home orders its messages. Every operation is complete when its method returns.

mod publish;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use weir_base::clock::Clock;

use super::{Announcement, Broker, ClientPublication, PublishError, ServerEvent, SubscribeError};
use crate::app::App;
use crate::channel::{
    Channel, Departure, DirectoryPart, HistoryEntry, Join, JoinError, JoinRequest, LeaveRequest,
    Published, SavedHistory, TooManyChannels, VersionedList, WatchQueue,
};
use crate::cores::{ChannelId, CoreBusy, Cores};
use crate::metrics::{LimitKind, RealtimeMetrics};
use crate::pusher::channel::ChannelName;
use crate::pusher::position::ChannelPosition;
use crate::settings::{COUNT_INTERVAL, COUNTED_AT_ONCE_MAX, HubLimits};
use crate::shared_log::SharedLog;

/// The most attempts to use a channel that is being removed, which takes microseconds.
const ATTEMPTS_MAX: usize = 100;

/// A broker that orders events by the channels' homes.
#[derive(Debug)]
pub(crate) struct LocalBroker {
    cores: Arc<Cores>,
    clock: Clock,
    metrics: RealtimeMetrics,
    channels_max: AtomicUsize,
    history_bytes_max: AtomicUsize,
    next_channel: AtomicU64,
    /// Bytes of all histories.
    history_bytes: AtomicUsize,
    /// The log of which channels are copies.
    log: Option<Arc<dyn SharedLog>>,
}

impl Broker for LocalBroker {
    fn publish(
        &self,
        app: &Arc<App>,
        channel: &ChannelName,
        event: ServerEvent<'_>,
    ) -> impl Future<Output = Result<Published, PublishError>> + Send {
        std::future::ready(self.publish_now(app, channel, event))
    }

    fn publish_all<'a>(
        &self,
        app: &Arc<App>,
        events: impl Iterator<Item = (&'a ChannelName, ServerEvent<'a>)> + Send,
    ) -> impl Future<Output = Result<(), PublishError>> + Send {
        std::future::ready(self.publish_all_now(app, events))
    }

    fn publish_client_event(
        &self,
        _: &App,
        channel: &Channel,
        event: ClientPublication<'_>,
    ) -> Result<(), CoreBusy> {
        self.publish_client_event_now(channel, event)
    }

    fn subscribe(
        &self,
        app: &App,
        name: &ChannelName,
        joining: &JoinRequest,
        on_join: impl Fn(&Channel, &Join),
    ) -> Result<(Arc<Channel>, Join), SubscribeError> {
        let settings = app.settings();
        for _ in 0..ATTEMPTS_MAX {
            let channel = self.channel(app, name)?;
            let on_join = |join: &Join| on_join(&channel, join);
            match channel.join(joining.clone(), &settings, &self.cores, on_join) {
                Ok(join) => {
                    self.add_history_bytes(join.history_change);
                    return Ok((channel, join));
                }
                Err(JoinError::Gone) => {}
                Err(JoinError::Unsynchronized) => return Err(SubscribeError::Unsynchronized),
                Err(JoinError::Unadmitted) => return Err(SubscribeError::Unadmitted),
                Err(JoinError::Busy(busy)) => {
                    self.metrics.limit_hit(LimitKind::CoreQueue);
                    return Err(busy.into());
                }
                Err(JoinError::TooManyMembers(error)) => {
                    self.metrics.limit_hit(LimitKind::Members);
                    return Err(error.into());
                }
            }
        }
        Err(CoreBusy.into())
    }

    fn unsubscribe(
        &self,
        app: &App,
        channel: &Channel,
        request: LeaveRequest<'_>,
        on_leave: impl FnOnce(Departure),
    ) -> Departure {
        let departure = channel.leave(request, &self.cores, on_leave);
        if departure.subscribers == 0 {
            self.remove_expired_channel(app, channel);
        }
        departure
    }

    fn announce_changes(&self, app: &App, channel: &Channel, subscribers: usize) -> Announcement {
        let (settings, kind, now) = (app.settings(), channel.kind, self.clock.now());
        let is_due = if kind.has_presence() {
            channel.send_members(&settings, &self.cores, now)
        } else if settings.has_subscription_counts && kind.sends_subscription_count() {
            let is_small = subscribers <= COUNTED_AT_ONCE_MAX;
            let interval = if is_small { Duration::ZERO } else { COUNT_INTERVAL };
            channel.send_count_if_due(interval, &self.cores, now)
        } else {
            false
        };
        if is_due { Announcement::Due } else { Announcement::Done }
    }

    fn members(&self, app: &App, channel: &str, version: Option<u64>) -> Option<VersionedList> {
        let channel = app.channels.get(channel)?;
        Some(channel.members(version, &app.settings().presence, self.clock.now()))
    }

    fn history(
        &self,
        app: &App,
        channel: &str,
        after: u64,
        events_max: usize,
    ) -> Option<(ChannelPosition, Vec<HistoryEntry>)> {
        app.channels.get(channel).map(|channel| channel.history(after, events_max))
    }
}

impl LocalBroker {
    /// Returns a broker without channels.
    pub(crate) fn new(
        cores: Arc<Cores>,
        clock: Clock,
        metrics: RealtimeMetrics,
        limits: &HubLimits,
        log: Option<Arc<dyn SharedLog>>,
    ) -> Self {
        Self {
            cores,
            clock,
            metrics,
            channels_max: AtomicUsize::new(limits.channels_max),
            history_bytes_max: AtomicUsize::new(limits.history_bytes_max),
            next_channel: AtomicU64::new(1),
            history_bytes: AtomicUsize::new(0),
            log,
        }
    }

    /// Replaces the limits.
    pub(crate) fn set_limits(&self, limits: &HubLimits) {
        self.channels_max.store(limits.channels_max, Ordering::Relaxed);
        self.history_bytes_max.store(limits.history_bytes_max, Ordering::Relaxed);
    }

    /// Returns the channel, and creates it if it does not exist.
    pub(crate) fn channel(
        &self,
        app: &App,
        name: &ChannelName,
    ) -> Result<Arc<Channel>, TooManyChannels> {
        let max = self.channels_max.load(Ordering::Relaxed);
        let created = app.channels.get_or_create(name, max, || {
            let id = ChannelId(self.next_channel.fetch_add(1, Ordering::Relaxed));
            let cache = Arc::clone(&app.cache);
            let now = self.clock.now();
            let channel = Channel::new(id, name.clone(), self.cores.len(), cache, now);
            match &self.log {
                Some(log) => channel.unsynchronized(log.takes_members(&app.key_of(name))),
                None => channel,
            }
        });
        created.inspect_err(|_| self.metrics.limit_hit(LimitKind::Channels))
    }

    /// Returns the part of an app's directory that has a user, and creates it if it does not exist.
    pub(crate) fn directory_part<'a>(
        &self,
        app: &'a App,
        user_id: &str,
        log: &dyn SharedLog,
    ) -> &'a DirectoryPart {
        app.directory.part_of(user_id, |name| {
            let takes_members = log.takes_members(&app.key_of(&name));
            let id = ChannelId(self.next_channel.fetch_add(1, Ordering::Relaxed));
            let cache = Arc::clone(&app.cache);
            let channel = Channel::new(id, name, self.cores.len(), cache, self.clock.now());
            Arc::new(channel.into_directory(&app.users).unsynchronized(takes_members))
        })
    }

    /// Adds a live view to a channel, and creates the channel if it does not exist.
    pub(crate) fn add_watcher(
        &self,
        app: &App,
        name: &ChannelName,
        watcher: &Arc<WatchQueue>,
    ) -> Result<Arc<Channel>, PublishError> {
        for _ in 0..ATTEMPTS_MAX {
            let channel = self.channel(app, name)?;
            if channel.add_watcher(watcher).is_ok() {
                return Ok(channel);
            }
        }
        Err(CoreBusy.into())
    }

    /// Removes a live view.
    pub(crate) fn remove_watcher(&self, app: &App, channel: &Channel, watcher: &Arc<WatchQueue>) {
        channel.remove_watcher(watcher);
        self.remove_expired_channel(app, channel);
    }

    /// Continues a channel of the previous process. Returns whether the limit of channels allows
    /// it. A channel of a shared log is read from there instead.
    pub(crate) fn restore(&self, app: &App, name: &ChannelName, saved: SavedHistory) -> bool {
        if self.log.is_some() {
            return false;
        }
        let Ok(channel) = self.channel(app, name) else { return false };
        self.count_delivered(app, &channel, channel.restore(saved));
        true
    }

    /// Removes expired data from one part of an app's channels, and channels that are unused.
    pub(crate) fn remove_expired(&self, app: &App, part: usize) {
        let change = app.channels.remove_expired_part(part, &app.settings(), self.clock.now());
        self.add_history_bytes(change);
        self.bound_cache(app);
    }

    /// Removes expired data from one channel, and the channel if it is unused.
    fn remove_expired_channel(&self, app: &App, channel: &Channel) {
        let name = channel.name.as_str();
        let change = app.channels.remove_expired(name, &app.settings(), self.clock.now());
        self.add_history_bytes(change);
    }

    /// Clears the histories of an app that was removed, as its channels are no longer maintained.
    pub(crate) fn forget_histories(&self, app: &App) {
        for channel in app.channels.with_prefix("") {
            self.add_history_bytes(channel.forget_history());
        }
    }

    /// Drops the oldest cached events while they exceed the limit of bytes.
    fn bound_cache(&self, app: &App) {
        let max = app.settings().cache_bytes_max;
        while let Some((channel, position)) = app.cache.take_beyond(max) {
            self.metrics.limit_hit(LimitKind::CacheBytes);
            if let Some(channel) = app.channels.get(channel.as_str()) {
                channel.forget_cached(position);
            }
        }
    }

    /// Adds to the bytes of all histories. Returns the sum.
    fn add_history_bytes(&self, change: isize) -> usize {
        // In two's complement, adding a negative number subtracts.
        let change = change.cast_unsigned();
        self.history_bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }

    /// Returns the bytes of all histories.
    pub(crate) fn history_bytes(&self) -> usize {
        self.history_bytes.load(Ordering::Relaxed)
    }
}
