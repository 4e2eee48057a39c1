//! Apps and limits: what is set, without secrets, and which limits were met.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use weir_realtime::view::{AppSettingsView, SettingView, SettingsView, WebhookView};

use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::realtime::Reading;
use crate::verdict::Finding;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "apps.html")]
struct AppsPage {
    shell: Shell,
    live: LivePart,
    whole: Vec<Setting>,
    apps: Vec<App>,
}

struct App {
    id: String,
    settings: Vec<Setting>,
    webhooks: Vec<WebhookView>,
}

/// A setting and its value, as people read it.
struct Setting {
    name: String,
    value: String,
    /// Beside its name there is no room for it on a narrow screen.
    is_long: bool,
}

#[derive(Template)]
#[template(path = "apps_live.html")]
struct LivePart {
    findings: Vec<Finding>,
    limits: Vec<LimitRow>,
    history: String,
    webhooks: String,
}

/// A limit that was met.
struct LimitRow {
    setting: String,
    lately: u64,
    total: u64,
}

/// `GET /apps`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    let SettingsView { whole, apps } = super::of(&console)?.hub.settings_view();
    let shell = Shell::new(&console, &visitor, Section::Apps, "Apps and limits").refreshed();
    let live = LivePart::read(&console)?;
    let whole = whole.into_iter().map(Setting::of).collect();
    Ok(html(&AppsPage { shell, live, whole, apps: apps.into_iter().map(App::of).collect() }))
}

/// `GET /live/apps`
pub(crate) async fn fragment(State(console): State<Arc<Console>>) -> Result<Response, PageError> {
    Ok(html(&LivePart::read(&console)?))
}

impl App {
    fn of(app: AppSettingsView) -> Self {
        let AppSettingsView { id, settings, webhooks } = app;
        let settings = settings.into_iter().map(Setting::of).collect();
        Self { id: visible(&id).into_owned(), settings, webhooks }
    }
}

/// What fits beside a name on a phone.
const SHORT_CHARACTERS_MAX: usize = 30;

impl Setting {
    fn of(setting: SettingView) -> Self {
        let SettingView { name, value } = setting;
        // A key may be all digits, too, and stays as it is.
        let number = name.ends_with("_max").then(|| value.parse().ok()).flatten();
        let value = number.map_or(value, figures::count);
        let is_long = value.chars().count() > SHORT_CHARACTERS_MAX;
        Self { name, value, is_long }
    }
}

impl LivePart {
    fn read(console: &Console) -> Result<Self, PageError> {
        let Reading { overview, trend, .. } = super::reading(console)?;
        let bytes = |bytes: usize| figures::bytes(bytes as u64);
        let lately = |limit: &str| {
            trend.limits_hit.iter().find(|hit| hit.limit == limit).map_or(0, |hit| hit.hits)
        };
        let met = overview.limits_hit.iter().filter(|hit| hit.hits > 0);
        let row = |hit: &weir_realtime::view::LimitHit| LimitRow {
            setting: hit.limit.clone(),
            lately: lately(&hit.limit),
            total: hit.hits,
        };
        let hooks = &overview.webhooks;
        let [sent, waiting, dropped, failed] =
            [hooks.sent, hooks.waiting, hooks.dropped, hooks.failed].map(figures::count);
        Ok(Self {
            findings: super::findings(console, "/apps"),
            limits: met.map(row).collect(),
            history: format!(
                "{} of {}",
                bytes(overview.history_bytes),
                bytes(overview.history_bytes_max)
            ),
            webhooks: format!(
                "{sent} sent · {waiting} waiting · {dropped} dropped · {failed} failed tries"
            ),
        })
    }
}
