//! Settings in effect, without secrets.

use serde::{Deserialize, Serialize};
use weir_settings::{Section, SettingValue};

use crate::hub::Hub;
use crate::settings::AppSettings;
use crate::webhooks::{WebhookEndpoint, WebhookKind};

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
        SettingsView { whole: views(&**self.settings(), "realtime"), apps }
    }
}

/// Every setting of a section with its value, as it would be written in the file.
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
        assert_eq!(value("history.age_max"), Some("2m"));
        assert!(!serde_json::to_string(&view).unwrap().contains("secret"));
    }
}
