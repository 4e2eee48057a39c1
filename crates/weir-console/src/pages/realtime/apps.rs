//! Apps and limits: their settings without secrets, and the limits that were reached.

use askama::Template;
use weir_advisor::VerdictFinding;
use weir_realtime::view::{AppSettingsView, SettingView, SettingsView, WebhookView};

use super::super::frame::{PageFrame, Section, html};
use super::super::live_page::LiveSection;
use super::super::request::{PageRequest, PageResult};
use crate::console::Console;
use crate::figures;
use crate::page_error::PageError;
use crate::realtime::RealtimeSnapshot;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "apps.html")]
struct AppsPage {
    frame: PageFrame,
    live: LiveSection,
    whole: Vec<AppSettingRow>,
    apps: Vec<AppSettingsPanel>,
}

struct AppSettingsPanel {
    id: String,
    settings: Vec<AppSettingRow>,
    webhooks: Vec<WebhookView>,
}

/// A setting and its value, as people read it.
struct AppSettingRow {
    name: String,
    value: String,
    /// Whether the value does not fit beside its name on a narrow screen.
    is_long: bool,
}

#[derive(Template)]
#[template(path = "apps_live.html")]
struct AppsLive {
    findings: Vec<VerdictFinding>,
    limits: Vec<LimitRow>,
    history: String,
    webhooks: String,
}

/// A limit that was reached.
struct LimitRow {
    setting: String,
    recent: u64,
    total: u64,
}

/// `GET /apps`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let SettingsView { whole, apps } = request.console.realtime()?.hub.settings_view();
    let limits = AppsLive::read(&request.console)?;
    request.live_response(limits.render(), &[], |live| {
        let frame = request.frame(Section::Apps, "Apps and limits").refreshed();
        let whole = whole.into_iter().map(AppSettingRow::new).collect();
        let apps = apps.into_iter().map(AppSettingsPanel::new).collect();
        Ok(html(&AppsPage { frame, live, whole, apps }))
    })
}

impl AppSettingsPanel {
    fn new(app: AppSettingsView) -> Self {
        let AppSettingsView { id, settings, webhooks } = app;
        let settings = settings.into_iter().map(AppSettingRow::new).collect();
        Self { id: visible(&id).into_owned(), settings, webhooks }
    }
}

/// The longest value that fits beside a name on a phone.
const SHORT_CHARACTERS_MAX: usize = 30;

impl AppSettingRow {
    fn new(setting: SettingView) -> Self {
        let SettingView { name, value } = setting;
        // Only limits are formatted as numbers: a key may consist of digits, too.
        let number = name.ends_with("_max").then(|| value.parse().ok()).flatten();
        let value = number.map_or(value, figures::count);
        let is_long = value.chars().count() > SHORT_CHARACTERS_MAX;
        Self { name, value, is_long }
    }
}

impl AppsLive {
    fn read(console: &Console) -> Result<Self, PageError> {
        let RealtimeSnapshot { overview, trend, .. } = super::snapshot(console)?;
        let bytes = |bytes: usize| figures::bytes(bytes as u64);
        let recent = |limit: &str| {
            trend.limits_hit.iter().find(|hit| hit.limit == limit).map_or(0, |hit| hit.hits)
        };
        let reached = overview.limits_hit.iter().filter(|hit| hit.hits > 0);
        let row = |hit: &weir_realtime::view::LimitHit| LimitRow {
            setting: hit.limit.clone(),
            recent: recent(&hit.limit),
            total: hit.hits,
        };
        let hooks = &overview.webhooks;
        let [sent, waiting, dropped, failed] =
            [hooks.sent, hooks.waiting, hooks.dropped, hooks.failed].map(figures::count);
        Ok(Self {
            findings: super::findings(console, "/apps"),
            limits: reached.map(row).collect(),
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
