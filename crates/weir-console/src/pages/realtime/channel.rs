//! One channel: its figures, its events as they come, what its history keeps, who is there.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use weir_realtime::view::{ChannelView, EventView, MemberPage};

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
#[template(path = "channel.html")]
struct ChannelPage {
    shell: Shell,
    live: LivePart,
    live_address: String,
    tail_address: String,
    publish_address: String,
    channels_address: String,
    app: String,
    name: String,
    done: Option<String>,
    is_encrypted: bool,
}

#[derive(Template)]
#[template(path = "channel_live.html")]
struct LivePart {
    /// None: nobody knows it.
    channel: Option<ChannelView>,
    history: Vec<EventRow>,
    members: Option<Members>,
}

/// An event as pages and the live view show it: nothing in it can pass for something else.
#[derive(Clone, Debug, Serialize)]
pub(super) struct EventRow {
    /// The time of day, UTC.
    time: String,
    moment: String,
    event: String,
    data: String,
    /// Empty: of no user.
    user: String,
    offset: Option<u64>,
    size: String,
}

/// A page of a presence channel's members.
struct Members {
    rows: Vec<Member>,
    summary: String,
    first: Option<String>,
    next: Option<String>,
}

struct Member {
    user: String,
    info: String,
}

/// Which channel, and where in the list of its members.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    app: String,
    name: String,
    #[serde(default)]
    after: String,
    done: Option<String>,
    count: Option<u64>,
}

/// `GET /channel?app=..&name=..`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let live = LivePart::read(&console, &wanted)?;
    let Wanted { app, name, after, .. } = &wanted;
    let which = [("app", app.as_str()), ("name", name.as_str())];
    let shown = visible(name).into_owned();
    let title = format!("Channel {}", figures::shortened(&shown, 60));
    Ok(html(&ChannelPage {
        shell: Shell::new(&console, &visitor, Section::Channels, title).refreshed(),
        live,
        live_address: address("/live/channel", &[&which[..], &[("after", after)]].concat()),
        tail_address: address("/channel/tail", &which),
        publish_address: address("/channel/publish", &which),
        channels_address: address("/channels", &[("app", app)]),
        app: visible(app).into_owned(),
        is_encrypted: name.starts_with("private-encrypted-"),
        name: shown,
        done: wanted.sentence(),
    }))
}

/// `GET /live/channel`
pub(crate) async fn fragment(
    State(console): State<Arc<Console>>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    Ok(html(&LivePart::read(&console, &wanted)?))
}

impl Wanted {
    /// What was done, from fixed words: the address can't put others into our mouth.
    fn sentence(&self) -> Option<String> {
        let subscribers = figures::counted(self.count.unwrap_or(0), "subscriber");
        match self.done.as_deref()? {
            "published" => Some(format!("The event is on its way to {subscribers}.")),
            "off" => Some("The event was not sent: its name is switched off.".to_owned()),
            _ => None,
        }
    }
}

impl LivePart {
    fn read(console: &Console, wanted: &Wanted) -> Result<Self, PageError> {
        let hub = &super::of(console)?.hub;
        let limits = &console.deps.settings.limits;
        let Wanted { app, name, after, .. } = wanted;
        hub.check_channel(app, name)?;
        let after = Some(after.as_str()).filter(|after| !after.is_empty());
        let members = hub.members(app, name, after, limits.page_members);
        Ok(Self {
            channel: hub.channel_view(app, name),
            history: hub.history(app, name, limits.page_events).iter().map(EventRow::of).collect(),
            members: members.map(|page| Members::of(wanted, page)),
        })
    }
}

/// Characters of an event's data that are shown: enough to know it by.
const DATA_CHARACTERS_MAX: usize = 1_000;
const NAME_CHARACTERS_MAX: usize = 200;

impl EventRow {
    pub(super) fn of(view: &EventView) -> Self {
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

impl Members {
    fn of(wanted: &Wanted, page: MemberPage) -> Self {
        let at = |after: &str| channel_address(&wanted.app, &wanted.name, &[("after", after)]);
        let row = |member: &weir_realtime::view::MemberView| Member {
            user: visible(&member.user_id).into_owned(),
            info: visible(member.user_info.as_deref().unwrap_or_default()).into_owned(),
        };
        Self {
            rows: page.members.iter().map(row).collect(),
            summary: figures::counted(page.total as u64, "user"),
            first: (!wanted.after.is_empty()).then(|| at("")),
            next: page.next.as_deref().map(at),
        }
    }
}
