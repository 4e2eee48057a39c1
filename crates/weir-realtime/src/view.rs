//! What others may see of realtime: plain data.

mod event;
mod members;
mod settings;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

pub use self::event::EventView;
pub use self::members::{MemberPage, MemberView};
pub use self::settings::{AppSettingsView, SettingView, SettingsView, WebhookView};
use crate::app::App;
use crate::channel::Channel;
use crate::hub::Hub;
pub use crate::metrics::{ClosedView, HubTotals, LimitHit};
pub use crate::webhooks::WebhookTotals;

/// Everything at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HubOverview {
    /// The apps, by id.
    pub apps: Vec<AppView>,
    /// What waits, by core.
    pub cores: Vec<CoreView>,
    /// Bytes of all histories.
    pub history_bytes: usize,
    /// Bytes that they may have.
    pub history_bytes_max: usize,
    /// What was counted.
    pub totals: HubTotals,
    /// What was counted of webhooks.
    pub webhooks: WebhookTotals,
    /// Every limit, and how often it was met.
    pub limits_hit: Vec<LimitHit>,
}

/// One app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppView {
    /// In the paths of the HTTP API.
    pub id: String,
    /// In every client's settings.
    pub key: String,
    /// Whether it may be used.
    pub is_enabled: bool,
    /// Connections that are open.
    pub connections: usize,
    /// Connections that may be open.
    pub connections_max: usize,
    /// Channels, those without subscribers included.
    pub channels: usize,
    /// Users who have signed in.
    pub users: usize,
}

/// One core: its connections, and what waits for it to deliver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreView {
    /// Connections that it has.
    pub connections: usize,
    /// Events that wait.
    pub events: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Events that may wait.
    pub events_max: usize,
    /// Bytes that may wait.
    pub bytes_max: usize,
}

/// One channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelView {
    /// Its name.
    pub name: String,
    /// Connections that are subscribed.
    pub subscribers: usize,
    /// Distinct users; of presence channels.
    pub users: Option<usize>,
    /// Which history its offsets belong to: 16 hexadecimal digits.
    pub epoch: String,
    /// Of its last event.
    pub offset: u64,
    /// Events that are kept.
    pub history_events: usize,
    /// Their bytes.
    pub history_bytes: usize,
    /// Events of servers and clients since the channel is there.
    pub published: u64,
    /// Bytes that they were for all subscribers together.
    pub published_bytes: u64,
    /// Events per second over the last ten seconds.
    pub events_per_second: f64,
    /// Bytes per second, for all subscribers together.
    pub bytes_per_second: f64,
    /// Times that a client was too slow for one of its events: something was dropped, or the client
    /// was closed.
    pub slowed: u64,
}

/// Some of an app's channels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelPage {
    /// Those with the most subscribers first, then by name.
    pub channels: Vec<ChannelView>,
    /// How many there are in all.
    pub total: usize,
}

impl Hub {
    /// Everything at a glance.
    #[must_use]
    pub fn overview(&self) -> HubOverview {
        let mut apps: Vec<AppView> = self.apps().iter().map(app_view).collect();
        apps.sort_by(|one, other| one.id.cmp(&other.id));
        let cores = self.cores.iter().map(|core| {
            let ((events, bytes), (events_max, bytes_max)) =
                (core.room.waiting(), core.room.limits());
            let connections = core.connections.load(Ordering::Relaxed);
            CoreView { connections, events, bytes, events_max, bytes_max }
        });
        HubOverview {
            apps,
            cores: cores.collect(),
            history_bytes: self.broker.history_bytes(),
            history_bytes_max: self.settings().limits.history_bytes_max,
            totals: self.metrics.totals(),
            webhooks: self.webhooks.metrics().totals(),
            limits_hit: self.metrics.limits_hit(),
        }
    }

    /// The channels of an app whose names begin with `prefix`, at most `limit`; None: no such app.
    #[must_use]
    pub fn channels(&self, app_id: &str, prefix: &str, limit: usize) -> Option<ChannelPage> {
        let app = self.app_by_id(app_id)?;
        let found = app.channels.with_prefix(prefix);
        let total = found.len();
        let with_count = |channel: Arc<Channel>| (channel.subscribers(), channel);
        let mut found: Vec<(usize, Arc<Channel>)> = found.into_iter().map(with_count).collect();
        found.sort_by(|(subscribers, channel), (others, other)| {
            others.cmp(subscribers).then_with(|| channel.name.cmp(&other.name))
        });
        found.truncate(limit);
        let now = self.clock.now();
        let channels = found.iter().map(|(_, channel)| channel_view(channel, now)).collect();
        Some(ChannelPage { channels, total })
    }

    /// One channel; None: nobody knows it.
    #[must_use]
    pub fn channel_view(&self, app_id: &str, name: &str) -> Option<ChannelView> {
        let channel = self.app_by_id(app_id)?.channels.get(name)?;
        Some(channel_view(&channel, self.clock.now()))
    }
}

fn app_view(app: &Arc<App>) -> AppView {
    let settings = app.settings();
    AppView {
        id: settings.id.to_string(),
        key: settings.key.to_string(),
        is_enabled: settings.is_enabled,
        connections: app.connections(),
        connections_max: settings.connections_max,
        channels: app.channels.len(),
        users: app.users.signed_in(),
    }
}

fn channel_view(channel: &Channel, now: Timestamp) -> ChannelView {
    let (info, rates) = (channel.info(), channel.rates(now));
    ChannelView {
        name: channel.name.to_string(),
        subscribers: info.subscribers,
        users: channel.kind.has_presence().then_some(info.users),
        epoch: info.position.epoch.to_string(),
        offset: info.position.offset,
        history_events: info.history_events,
        history_bytes: info.history_bytes,
        published: info.published.events,
        published_bytes: info.published.bytes,
        events_per_second: rates.events,
        bytes_per_second: rates.bytes,
        slowed: channel.times_slowed(),
    }
}
