//! One channel: its figures, live events, history and members.

use askama::Template;
use serde::{Deserialize, Serialize};
use weir_realtime::view::{ChannelView, EventView, MemberPage};

use super::super::frame::{PageFrame, Section, html};
use super::super::live_page::LiveSection;
use super::super::request::{PageRequest, PageResult};
use super::channel_address;
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::page_error::PageError;
use crate::visible::visible;

/// Events of the channel's history on its page.
const EVENTS_MAX: usize = 50;

#[derive(Template)]
#[template(path = "channel.html")]
struct ChannelPage {
    frame: PageFrame,
    live: LiveSection,
    tail_address: String,
    publish_address: String,
    channels_address: String,
    app: String,
    name: String,
    is_encrypted: bool,
}

#[derive(Template)]
#[template(path = "channel_live.html")]
struct ChannelLive {
    /// None: the channel does not exist.
    channel: Option<ChannelView>,
    history: Vec<EventRow>,
    members: Option<ChannelMembers>,
}

/// An event, safe to display in pages and in the live view.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EventRow {
    /// The time of day, UTC.
    time: String,
    moment: String,
    event: String,
    data: String,
    /// Empty: not related to a user.
    user: String,
    offset: Option<u64>,
    size: String,
}

/// A page of a presence channel's members.
struct ChannelMembers {
    rows: Vec<ChannelMemberRow>,
    summary: String,
    first: Option<String>,
    next: Option<String>,
}

struct ChannelMemberRow {
    user: String,
    info: String,
}

/// The channel, and the position in the list of its members.
#[derive(Debug, Deserialize)]
pub(crate) struct ChannelPageQuery {
    app: String,
    name: String,
    #[serde(default)]
    after: String,
    done: Option<String>,
    count: Option<u64>,
}

/// `GET /channel?app=..&name=..`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let query: ChannelPageQuery = request.query()?;
    let ChannelPageQuery { app, name, after, .. } = &query;
    let channel_fields = [("app", app.as_str()), ("name", name.as_str())];
    let fields = [&channel_fields[..], &[("after", after.as_str())]].concat();
    let channel = ChannelLive::read(&request.console, &query)?;
    request.live_response(channel.render(), &fields, |live| {
        let display_name = visible(name).into_owned();
        let title = format!("Channel {}", figures::shortened(&display_name, 60));
        let frame = request.frame(Section::Channels, title).refreshed();
        Ok(html(&ChannelPage {
            frame: frame.with_flash(query.flash()),
            live,
            tail_address: address("/channel/tail", &channel_fields),
            publish_address: address("/channel/publish", &channel_fields),
            channels_address: address("/channels", &[("app", app)]),
            app: visible(app).into_owned(),
            is_encrypted: name.starts_with("private-encrypted-"),
            name: display_name,
        }))
    })
}

impl ChannelPageQuery {
    /// Returns the flash message. The texts are fixed, so a forged address cannot inject others.
    fn flash(&self) -> Option<String> {
        let subscribers = figures::counted(self.count.unwrap_or(0), "subscriber");
        match self.done.as_deref()? {
            "published" => Some(format!("The event was sent to {subscribers}.")),
            "off" => Some("The event was not sent: its name is switched off.".to_owned()),
            _ => None,
        }
    }
}

impl ChannelLive {
    fn read(console: &Console, query: &ChannelPageQuery) -> Result<Self, PageError> {
        let hub = &console.realtime()?.hub;
        let limits = &console.deps.settings.limits;
        let ChannelPageQuery { app, name, after, .. } = query;
        hub.check_channel(app, name)?;
        let after = Some(after.as_str()).filter(|after| !after.is_empty());
        let members = hub.members(app, name, after, limits.page_members);
        Ok(Self {
            channel: hub.channel_view(app, name),
            history: hub.history(app, name, EVENTS_MAX).iter().map(EventRow::new).collect(),
            members: members.map(|page| ChannelMembers::new(query, page)),
        })
    }
}

/// Displayed characters of an event's data: enough to identify it.
const DATA_CHARACTERS_MAX: usize = 1_000;
const NAME_CHARACTERS_MAX: usize = 200;

impl EventRow {
    pub(super) fn new(view: &EventView) -> Self {
        let moment = figures::moment(view.at);
        let shown = |text: &str, max| visible(&figures::shortened(text, max)).into_owned();
        Self {
            time: moment.split_once(' ').map_or_else(String::new, |(_, time)| time.to_owned()),
            moment,
            event: shown(&view.event, NAME_CHARACTERS_MAX),
            data: shown(&view.data, DATA_CHARACTERS_MAX),
            user: shown(view.user_id.as_deref().unwrap_or_default(), NAME_CHARACTERS_MAX),
            offset: view.offset,
            size: figures::bytes(view.bytes as u64),
        }
    }
}

impl ChannelMembers {
    fn new(query: &ChannelPageQuery, page: MemberPage) -> Self {
        let at = |after: &str| channel_address(&query.app, &query.name, &[("after", after)]);
        let row = |member: &weir_realtime::view::MemberView| ChannelMemberRow {
            user: visible(&member.user_id).into_owned(),
            info: visible(member.user_info.as_deref().unwrap_or_default()).into_owned(),
        };
        Self {
            rows: page.members.iter().map(row).collect(),
            summary: figures::counted(page.total as u64, "user"),
            first: (!query.after.is_empty()).then(|| at("")),
            next: page.next.as_deref().map(at),
        }
    }
}
