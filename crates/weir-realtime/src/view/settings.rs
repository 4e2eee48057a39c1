//! Settings in effect, without secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_settings::{Section, SettingValue};

use crate::hub::Hub;
use crate::settings::AppSettings;
use crate::webhooks::{WebhookEndpoint, WebhookKind};

/// A setting in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingView {
    /// The setting's name.
    pub name: String,
    /// The setting's value, as text for people.
    pub value: String,
}

/// The settings of the realtime server and of each app.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingsView {
    /// Settings of the realtime server, named `realtime.*`.
    pub whole: Vec<SettingView>,
    /// Settings of the apps, ordered by app id.
    pub apps: Vec<AppSettingsView>,
}

/// The settings of one app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppSettingsView {
    /// The app's id.
    pub id: String,
    /// The settings, with their names under `[[realtime.apps]]`.
    pub settings: Vec<SettingView>,
    /// The endpoints of its webhooks, without secrets of their URLs.
    pub webhooks: Vec<WebhookView>,
}

/// A webhook endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookView {
    /// The endpoint's URL.
    pub url: String,
    /// The kinds of events that it receives.
    pub events: Vec<String>,
    /// Prefix of the names of the channels whose events it receives.
    pub channel_prefix: String,
}

impl Hub {
    /// Returns the settings in effect.
    #[must_use]
    pub fn settings_view(&self) -> SettingsView {
        let mut apps: Vec<AppSettingsView> =
            self.apps().iter().map(|app| app_settings(&app.settings())).collect();
        apps.sort_by(|one, other| one.id.cmp(&other.id));
        SettingsView { whole: views(&**self.settings(), "realtime"), apps }
    }
}

/// Returns every setting of a section, with its value as in the file. Omits secrets.
fn views<S: Section + Clone>(section: &S, path: &str) -> Vec<SettingView> {
    let view = |value: SettingValue| SettingView {
        name: value.path,
        value: value.shown.trim_matches('"').to_owned(),
    };
    let values = weir_settings::values(section, path).into_iter();
    values.filter(|value| value.kind != "secret").map(view).collect()
}

fn app_settings(app: &AppSettings) -> AppSettingsView {
    let webhooks = app.hooks.endpoints.iter().map(|endpoint| webhook(endpoint)).collect();
    AppSettingsView { id: app.id.to_string(), settings: views(app, ""), webhooks }
}

fn webhook(endpoint: &WebhookEndpoint) -> WebhookView {
    let kinds = WebhookKind::ALL.into_iter().filter(|kind| endpoint.kinds.contains(*kind));
    WebhookView {
        url: endpoint.url.to_string(),
        events: kinds.map(|kind| kind.name().to_owned()).collect(),
        channel_prefix: endpoint.channel_prefix.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use weir_base::clock::{Clock, Timestamp};

    use crate::hub::single_core::hub;

    #[test]
    fn settings_are_shown_without_secrets() {
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
        assert_eq!(value("history.age_max"), Some("2m"));
        assert!(!serde_json::to_string(&view).unwrap().contains("secret"));
    }
}
