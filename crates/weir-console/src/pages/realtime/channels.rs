//! The channels of one app, those with the most subscribers first.

use askama::Template;
use serde::Deserialize;
use weir_realtime::view::{AppView, ChannelView};

use super::super::frame::{PageFrame, Section, html};
use super::super::live_page::LiveSection;
use super::super::request::{PageRequest, PageResult};
use super::channel_address;
use crate::console::Console;
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "channels.html")]
struct ChannelsPage {
    frame: PageFrame,
    live: LiveSection,
    apps: Vec<AppView>,
    app: String,
    prefix: String,
}

#[derive(Template)]
#[template(path = "channels_live.html")]
struct ChannelsLive {
    rows: Vec<ChannelRow>,
    summary: String,
}

struct ChannelRow {
    channel: ChannelView,
    name: String,
    address: String,
    users: String,
}

/// The filter of the list.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct ChannelListQuery {
    /// Empty: the first app.
    #[serde(default)]
    app: String,
    #[serde(default)]
    prefix: String,
}

/// `GET /channels`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let apps = request.console.realtime()?.hub.overview().apps;
    let query = request.query::<ChannelListQuery>()?.with_default_app(&apps);
    let channels = ChannelsLive::read(&request.console, &query)?;
    let fields = [("app", query.app.as_str()), ("prefix", query.prefix.as_str())];
    request.live_response(channels.render(), &fields, |live| {
        let frame = request.frame(Section::Channels, "Channels").refreshed();
        let (app, prefix) = (query.app.clone(), query.prefix.clone());
        Ok(html(&ChannelsPage { frame, live, apps, app, prefix }))
    })
}

impl ChannelListQuery {
    /// Selects the first app unless one is named.
    fn with_default_app(mut self, apps: &[AppView]) -> Self {
        if self.app.is_empty() {
            self.app = apps.first().map(|app| app.id.clone()).unwrap_or_default();
        }
        self
    }
}

impl ChannelsLive {
    fn read(console: &Console, query: &ChannelListQuery) -> Result<Self, PageError> {
        let limit = console.deps.settings.limits.page_channels;
        let hub = &console.realtime()?.hub;
        let page = hub.channels(&query.app, &query.prefix, limit).ok_or_else(|| {
            let app = figures::shortened(&query.app, 100);
            PageError::NotFound(format!("there is no app {app:?}"))
        })?;
        let rows: Vec<ChannelRow> =
            page.channels.into_iter().map(|channel| ChannelRow::new(&query.app, channel)).collect();
        let mut summary = match (page.total, query.prefix.is_empty()) {
            (0, true) => "There are no channels.".to_owned(),
            (0, false) => "No channel name has this prefix.".to_owned(),
            (total, _) => figures::counted(total as u64, "channel"),
        };
        if page.total > rows.len() {
            let shown = rows.len();
            summary.push_str(&format!("; the {shown} with the most subscribers are shown"));
        }
        Ok(Self { rows, summary })
    }
}

impl ChannelRow {
    fn new(app: &str, channel: ChannelView) -> Self {
        Self {
            name: visible(&channel.name).into_owned(),
            address: channel_address(app, &channel.name, &[]),
            users: channel.users.map_or_else(|| "–".to_owned(), |n| figures::count(n as u64)),
            channel,
        }
    }
}
