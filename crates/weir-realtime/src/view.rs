//! The state of the realtime server as plain data, for the console and the admin API.

mod event;
mod members;
mod settings;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::clock::Timestamp;

pub use self::event::EventView;
pub use self::members::{MemberPage, MemberView};
pub use self::settings::{AppSettingsView, SettingView, SettingsView, WebhookView};
use crate::app::App;
use crate::channel::Channel;
use crate::hub::Hub;
pub use crate::metrics::{ClosedView, HubTotals, LimitHit};
use crate::shared_log;
pub use crate::shared_log::{LogShardView, NodeView};
pub use crate::webhooks::WebhookTotals;

/// A snapshot of the whole realtime server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HubOverview {
    /// The apps, by id.
    pub apps: Vec<AppView>,
    /// The cores and what waits for them, by number.
    pub cores: Vec<CoreView>,
    /// Bytes of all histories.
    pub history_bytes: usize,
    /// Limit of the bytes of all histories.
    pub history_bytes_max: usize,
    /// Totals of the realtime server.
    pub totals: HubTotals,
    /// Totals of webhooks.
    pub webhooks: WebhookTotals,
    /// Every limit, and how often it was reached.
    pub limits_hit: Vec<LimitHit>,
    /// The servers of the log that several nodes share.
    #[serde(default)]
    pub log_shards: Vec<LogShardView>,
    /// The nodes that share the log, by hostname.
    #[serde(default)]
    pub nodes: Vec<NodeView>,
}

/// An app and its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppView {
    /// The id in the paths of the HTTP API.
    pub id: String,
    /// The key that clients connect with.
    pub key: String,
    /// Whether the app is enabled.
    pub is_enabled: bool,
    /// Number of open connections.
    pub connections: usize,
    /// Limit of open connections: of the app on all nodes, or of all apps on this node if that is lower.
    pub connections_max: usize,
    /// Number of channels, including those without subscribers.
    pub channels: usize,
    /// Number of signed-in users.
    pub users: usize,
}

/// A core: its connections, and the events that wait to be delivered by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CoreView {
    /// Number of open connections.
    pub connections: usize,
    /// Number of waiting events.
    pub events: usize,
    /// Bytes of the waiting events.
    pub bytes: usize,
    /// Limit of waiting events.
    pub events_max: usize,
    /// Limit of the waiting events' bytes.
    pub bytes_max: usize,
}

/// A channel and its figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelView {
    /// The channel's name.
    pub name: String,
    /// Number of subscribed connections.
    pub subscribers: usize,
    /// Number of distinct users, for presence channels only.
    pub users: Option<usize>,
    /// The epoch of the history that its offsets belong to: 16 hexadecimal digits.
    pub epoch: String,
    /// Offset of the last event.
    pub offset: u64,
    /// Number of events in the history.
    pub history_events: usize,
    /// Bytes of the events in the history.
    pub history_bytes: usize,
    /// Number of events of servers and clients since the channel was created.
    pub published: u64,
    /// Bytes of these events, for all subscribers together.
    pub published_bytes: u64,
    /// Events per second over the last ten seconds.
    pub events_per_second: f64,
    /// Bytes per second, for all subscribers together.
    pub bytes_per_second: f64,
    /// Number of times that a client was too slow for an event: events were dropped, or the client
    /// was disconnected.
    pub slowed: u64,
}

/// A part of an app's channels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelPage {
    /// The channels, by number of subscribers in descending order, then by name.
    pub channels: Vec<ChannelView>,
    /// Number of all channels that match.
    pub total: usize,
}

impl Hub {
    /// Returns a snapshot of the whole realtime server.
    #[must_use]
    pub fn overview(&self) -> HubOverview {
        let mut apps: Vec<AppView> = self.apps().iter().map(|app| self.app_view(app)).collect();
        apps.sort_by(|one, other| one.id.cmp(&other.id));
        let cores = self.cores.iter().map(|core| {
            let ((events, bytes), (events_max, bytes_max)) =
                (core.budget.waiting(), core.budget.limits());
            let connections = core.connections.load(Ordering::Relaxed);
            CoreView { connections, events, bytes, events_max, bytes_max }
        });
        HubOverview {
            apps,
            cores: cores.collect(),
            history_bytes: self.broker.local.history_bytes(),
            history_bytes_max: self.settings().limits.history_bytes_max,
            totals: self.metrics.totals(),
            webhooks: self.webhooks.metrics().totals(),
            limits_hit: self.metrics.limits_hit(),
            log_shards: self.broker.log.as_ref().map(|log| log.shards()).unwrap_or_default(),
            nodes: self
                .broker
                .log
                .iter()
                .flat_map(|log| log.node_states())
                .map(Into::into)
                .collect(),
        }
    }

    /// Returns what this node reports to those that share its log.
    #[must_use]
    pub fn node_figures(&self) -> shared_log::NodeFigures {
        let channels: usize = self.apps().iter().map(|app| app.channels.len()).sum();
        let clients = self.metrics.totals().connections;
        shared_log::NodeFigures { clients, channels: channels as u64, log_seconds: 0.0 }
    }

    fn app_view(&self, app: &App) -> AppView {
        let settings = app.settings();
        let total_max = self.settings().limits.connections_total_max;
        AppView {
            id: settings.id.to_string(),
            key: settings.key.to_string(),
            is_enabled: settings.is_enabled,
            connections: app.connections(),
            connections_max: settings.connections_max.min(total_max),
            channels: app.channels.len(),
            users: app.users.signed_in(),
        }
    }

    /// Returns the channels of an app whose names begin with `prefix`, at most `limit`. None if the
    /// app does not exist.
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

    /// Returns a channel, or None if it does not exist.
    #[must_use]
    pub fn channel_view(&self, app_id: &str, name: &str) -> Option<ChannelView> {
        let channel = self.app_by_id(app_id)?.channels.get(name)?;
        Some(channel_view(&channel, self.clock.now()))
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
