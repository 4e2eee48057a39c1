//! Settings in effect, without secrets.

use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_base::token_bucket::Rate;

use crate::hub::Hub;
use crate::settings::{AppSettings, Settings, SlowClients};
use crate::webhooks::{Endpoint, Kind};

/// One setting, as it is in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingView {
    /// Its name.
    pub name: String,
    /// Its value, to be read.
    pub value: String,
}

/// Settings of all apps, and of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsView {
    /// Of realtime: names begin with `realtime.`.
    pub whole: Vec<SettingView>,
    /// Of the apps, by id.
    pub apps: Vec<AppSettingsView>,
}

/// One app's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppSettingsView {
    /// The app.
    pub id: String,
    /// Names are those under `[[realtime.apps]]`.
    pub settings: Vec<SettingView>,
    /// Where its webhooks go, without what may be secret of the addresses.
    pub webhooks: Vec<WebhookView>,
}

/// One receiver of webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookView {
    /// Where it is.
    pub url: String,
    /// What it is told.
    pub events: Vec<String>,
    /// Only of channels whose names begin so.
    pub channel_prefix: String,
}

impl Hub {
    /// What is set.
    #[must_use]
    pub fn settings_view(&self) -> SettingsView {
        let mut apps: Vec<AppSettingsView> =
            self.apps().iter().map(|app| app_settings(&app.settings())).collect();
        apps.sort_by(|one, other| one.id.cmp(&other.id));
        SettingsView { whole: whole(&self.settings()), apps }
    }
}

fn setting(name: &str, value: impl Display) -> SettingView {
    SettingView { name: name.to_owned(), value: value.to_string() }
}

fn time(name: &str, value: Duration) -> SettingView {
    setting(name, format!("{value:?}"))
}

/// In the largest unit that needs no fraction, as settings are written.
fn size(name: &str, bytes: usize) -> SettingView {
    const UNITS: [(&str, usize); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size));
    match unit {
        Some((unit, size)) => setting(name, format!("{}{unit}", bytes / size)),
        None => setting(name, format!("{bytes}B")),
    }
}

fn per_second(name: &str, rate: Rate) -> SettingView {
    setting(name, rate.tokens_per_second())
}

fn burst(name: &str, rate: Rate) -> SettingView {
    setting(name, rate.burst())
}

fn flag(name: &str, value: bool) -> SettingView {
    setting(name, if value { "yes" } else { "no" })
}

fn whole(settings: &Settings) -> Vec<SettingView> {
    let (limits, pusher) = (&settings.limits, &settings.pusher);
    vec![
        time("realtime.activity_timeout", settings.activity_timeout),
        time("realtime.drain_window", settings.drain_window),
        setting("realtime.limits.connections_total_max", limits.connections_total_max),
        time("realtime.limits.subscribe_timeout", limits.subscribe_timeout),
        setting("realtime.limits.channels_max", limits.channels_max),
        setting("realtime.limits.channels_per_connection_max", limits.channels_per_connection_max),
        setting("realtime.limits.core_queue_events_max", limits.core_queue_events_max),
        size("realtime.limits.core_queue_bytes_max", limits.core_queue_bytes_max),
        setting("realtime.limits.writes_per_turn_max", limits.writes_per_turn_max),
        size("realtime.limits.write_bytes_max", limits.write_bytes_max),
        size("realtime.limits.history_bytes_max", limits.history_bytes_max),
        per_second("realtime.limits.subscribes_per_second", limits.subscribe_rate),
        burst("realtime.limits.subscribes_burst", limits.subscribe_rate),
        time("realtime.limits.pong_timeout", limits.pong_timeout),
        time("realtime.limits.close_timeout", limits.close_timeout),
        setting("realtime.limits.watchers_max", limits.watchers_max),
        setting("realtime.limits.watch_events_max", limits.watch_events_max),
        size("realtime.limits.event_data_bytes_max", pusher.event_data_bytes_max),
        size("realtime.limits.api_body_bytes_max", pusher.api_body_bytes_max),
        size("realtime.limits.client_message_bytes_max", pusher.client_message_bytes_max),
    ]
}

fn app_settings(app: &AppSettings) -> AppSettingsView {
    let origins: Vec<String> = app.origins.iter().map(ToString::to_string).collect();
    let origins = if origins.is_empty() { "all".to_owned() } else { origins.join(", ") };
    let (history, presence) = (&app.history, &app.presence);
    let settings = vec![
        setting("key", &app.key),
        flag("enabled", app.is_enabled),
        flag("require_tls", app.requires_tls),
        setting("origins", origins),
        setting("connections_max", app.connections_max),
        flag("client_events", app.has_client_events),
        per_second("client_events_per_second", app.client_event_rate),
        burst("client_events_burst", app.client_event_rate),
        flag("subscription_counts", app.has_subscription_counts),
        setting("slow_clients", slow_clients(app.slow_clients)),
        size("client_queue_bytes_max", app.client_queue_bytes_max),
        setting("history.events_max", history.events_max),
        size("history.bytes_max", history.bytes_max),
        time("history.age_max", history.age_max),
        setting("presence.members_max", presence.members_max),
        setting("presence.list_max", presence.list_max),
        time("presence.gather", presence.gather),
        setting("presence.page_max", presence.page_max),
        time("cache_age_max", app.cache_age_max),
        size("cache_bytes_max", app.cache_bytes_max),
    ];
    let webhooks = app.hooks.endpoints.iter().map(|endpoint| webhook(endpoint)).collect();
    AppSettingsView { id: app.id.to_string(), settings, webhooks }
}

const fn slow_clients(policy: SlowClients) -> &'static str {
    match policy {
        SlowClients::Disconnect => "disconnect",
        SlowClients::DropOldest => "drop_oldest",
        SlowClients::Conflate => "conflate",
    }
}

fn webhook(endpoint: &Endpoint) -> WebhookView {
    let kinds = Kind::ALL.into_iter().filter(|kind| endpoint.kinds.contains(*kind));
    WebhookView {
        url: endpoint.url.to_string(),
        events: kinds.map(|kind| kind.name().to_owned()).collect(),
        channel_prefix: endpoint.channel_prefix.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::{Clock, Timestamp};

    use crate::hub::alone::hub;

    #[test]
    fn what_is_set_is_told_and_no_secret() {
        let hub = hub(&Clock::manual(Timestamp::from_millis(1)));
        let view = hub.settings_view();
        let value = |name: &str| {
            let settings = view.whole.iter().chain(&view.apps[0].settings);
            settings.clone().find(|one| one.name == name).map(|one| one.value.as_str())
        };
        assert_eq!(value("realtime.limits.channels_max"), Some("100000"));
        assert_eq!(value("key"), Some("key"));
        assert_eq!(value("client_queue_bytes_max"), Some("256KiB"));
        assert_eq!(value("client_events_per_second"), Some("10"));
        assert_eq!(value("client_events_burst"), Some("10"));
        assert_eq!(value("history.age_max"), Some("120s"));
        assert!(!serde_json::to_string(&view).unwrap().contains("secret"));
    }
}
