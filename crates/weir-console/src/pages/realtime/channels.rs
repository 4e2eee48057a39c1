//! The channels of one app, those with the most subscribers first.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_realtime::view::{AppView, ChannelView};

use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use super::channel_address;
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "channels.html")]
struct ChannelsPage {
    shell: Shell,
    live: LivePart,
    live_address: String,
    apps: Vec<AppView>,
    app: String,
    prefix: String,
}

#[derive(Template)]
#[template(path = "channels_live.html")]
struct LivePart {
    rows: Vec<Row>,
    summary: String,
}

struct Row {
    channel: ChannelView,
    name: String,
    address: String,
    users: String,
}

/// Which channels.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Wanted {
    /// Empty: the first.
    #[serde(default)]
    app: String,
    #[serde(default)]
    prefix: String,
}

/// `GET /channels`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let apps = super::of(&console)?.hub.overview().apps;
    let wanted = wanted.of(&apps);
    let live = LivePart::read(&console, &wanted)?;
    let Wanted { app, prefix } = wanted;
    Ok(html(&ChannelsPage {
        shell: Shell::new(&console, &visitor, Section::Channels, "Channels").refreshed(),
        live,
        live_address: address("/live/channels", &[("app", &app), ("prefix", &prefix)]),
        apps,
        app,
        prefix,
    }))
}

/// `GET /live/channels`
pub(crate) async fn fragment(
    State(console): State<Arc<Console>>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    Ok(html(&LivePart::read(&console, &wanted)?))
}

impl Wanted {
    /// With an app, if there is one.
    fn of(mut self, apps: &[AppView]) -> Self {
        if self.app.is_empty() {
            self.app = apps.first().map(|app| app.id.clone()).unwrap_or_default();
        }
        self
    }
}

impl LivePart {
    fn read(console: &Console, wanted: &Wanted) -> Result<Self, PageError> {
        let limit = console.deps.settings.limits.page_channels;
        let hub = &super::of(console)?.hub;
        let page = hub.channels(&wanted.app, &wanted.prefix, limit).ok_or_else(|| {
            let app = figures::shortened(&wanted.app, 100);
            PageError::NotFound(format!("there is no app {app:?}"))
        })?;
        let rows: Vec<Row> =
            page.channels.into_iter().map(|channel| Row::of(&wanted.app, channel)).collect();
        let mut summary = match (page.total, wanted.prefix.is_empty()) {
            (0, true) => "There are no channels.".to_owned(),
            (0, false) => "No channel's name begins so.".to_owned(),
            (total, _) => figures::counted(total as u64, "channel"),
        };
        if page.total > rows.len() {
            let shown = rows.len();
            summary.push_str(&format!("; the {shown} with the most subscribers are shown"));
        }
        Ok(Self { rows, summary })
    }
}

impl Row {
    fn of(app: &str, channel: ChannelView) -> Self {
        Self {
            name: visible(&channel.name).into_owned(),
            address: channel_address(app, &channel.name, &[]),
            users: channel.users.map_or_else(|| "–".to_owned(), |n| figures::count(n as u64)),
            channel,
        }
    }
}
