//! What others may see of realtime: plain data.

use std::sync::Arc;

use crate::app::App;
use crate::channel::Channel;
use crate::hub::Hub;

/// Everything at a glance.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Overview {
    /// The apps, by id.
    pub apps: Vec<AppView>,
    /// Events that wait to be delivered, by core.
    pub cores: Vec<CoreView>,
    /// Bytes of all histories.
    pub history_bytes: usize,
}

/// One app.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
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

/// What waits for one core.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct CoreView {
    /// Events.
    pub events: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// One channel.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
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
}

/// Some of an app's channels.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ChannelPage {
    /// Those with the most subscribers first, then by name.
    pub channels: Vec<ChannelView>,
    /// How many there are in all.
    pub total: usize,
}

impl Hub {
    /// Everything at a glance.
    #[must_use]
    pub fn overview(&self) -> Overview {
        let mut apps: Vec<AppView> = self.apps().iter().map(app_view).collect();
        apps.sort_by(|one, other| one.id.cmp(&other.id));
        let cores = self.cores.iter().map(|core| {
            let (events, bytes) = core.room.waiting();
            CoreView { events, bytes }
        });
        Overview { apps, cores: cores.collect(), history_bytes: self.history_bytes() }
    }

    /// The channels of an app whose names begin with `prefix`, at most `limit`; None: no such app.
    #[must_use]
    pub fn channels(&self, app_id: &str, prefix: &str, limit: usize) -> Option<ChannelPage> {
        let app = self.app_by_id(app_id)?;
        let found = app.channels.with_prefix(prefix);
        let mut channels: Vec<ChannelView> = found.iter().map(|one| channel_view(one)).collect();
        let total = channels.len();
        channels.sort_by(|one, other| {
            other.subscribers.cmp(&one.subscribers).then_with(|| one.name.cmp(&other.name))
        });
        channels.truncate(limit);
        Some(ChannelPage { channels, total })
    }

    /// One channel; None: nobody knows it.
    #[must_use]
    pub fn channel_view(&self, app_id: &str, name: &str) -> Option<ChannelView> {
        let channel = self.app_by_id(app_id)?.channels.get(name)?;
        Some(channel_view(&channel))
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

fn channel_view(channel: &Channel) -> ChannelView {
    let info = channel.info();
    ChannelView {
        name: channel.name.to_string(),
        subscribers: info.subscribers,
        users: channel.kind.has_presence().then_some(info.users),
        epoch: info.position.epoch.to_string(),
        offset: info.position.offset,
        history_events: info.history_events,
        history_bytes: info.history_bytes,
    }
}
