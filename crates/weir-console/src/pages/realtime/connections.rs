//! Connections: by app and by core, with the reasons why they were closed.

use askama::Template;
use weir_advisor::VerdictFinding;
use weir_realtime::view::{AppView, ClosedView, CoreView};

use super::super::frame::{PageFrame, Section, html};
use super::super::live_page::LiveSection;
use super::super::ranges::{self, ChartRange, RangeQuery};
use super::super::request::{PageRequest, PageResult};
use super::CHART_SOURCE;
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::page_error::PageError;
use crate::realtime::{RealtimeSnapshot, share};
use crate::visible::visible;

#[derive(Template)]
#[template(path = "connections.html")]
struct ConnectionsPage {
    frame: PageFrame,
    live: LiveSection,
    ranges: Vec<ChartRange>,
    range_seconds: u64,
    chart_source: &'static str,
}

#[derive(Template)]
#[template(path = "connections_live.html")]
struct ConnectionsLive {
    reading: RealtimeSnapshot,
    findings: Vec<VerdictFinding>,
    apps: Vec<AppRow>,
    cores: Vec<CoreRow>,
    closed: Vec<CloseReasonRow>,
}

struct AppRow {
    app: AppView,
    id: String,
    channels_address: String,
    share: String,
    /// The style's class of the connections.
    class: &'static str,
}

struct CoreRow {
    core: CoreView,
    share: String,
    class: &'static str,
    /// How long its queue has been nearly full.
    busy: Option<String>,
}

/// A count of connections that were closed for one reason.
struct CloseReasonRow {
    reason: String,
    count: u64,
}

/// `GET /connections`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let connections = ConnectionsLive::read(&request.console)?;
    let range = request.query::<RangeQuery>()?.range_name();
    request.live_response(connections.render(), &[], |live| {
        let ranges = ranges::all(&ranges::WHOLE, &range, |key| format!("/connections?range={key}"));
        Ok(html(&ConnectionsPage {
            frame: request.frame(Section::Connections, "Connections").refreshed(),
            live,
            range_seconds: ranges::chosen_seconds(&ranges),
            ranges,
            chart_source: CHART_SOURCE,
        }))
    })
}

impl ConnectionsLive {
    fn read(console: &Console) -> Result<Self, PageError> {
        let reading = super::snapshot(console)?;
        let overview = &reading.overview;
        let busy = reading.trend.cores_busy_seconds.iter().copied();
        let busy = busy.chain(std::iter::repeat(None));
        let cores = overview.cores.iter().zip(busy);
        Ok(Self {
            findings: super::findings(console, "/connections"),
            apps: overview.apps.iter().map(AppRow::new).collect(),
            cores: cores.map(|(core, busy)| CoreRow::new(*core, busy)).collect(),
            closed: overview.totals.closed.iter().map(CloseReasonRow::new).collect(),
            reading,
        })
    }
}

impl AppRow {
    fn new(app: &AppView) -> Self {
        let max = figures::as_float(app.connections_max.max(1) as u64);
        let share = figures::as_float(app.connections as u64) / max;
        Self {
            id: visible(&app.id).into_owned(),
            channels_address: address("/channels", &[("app", &app.id)]),
            share: figures::percent(share),
            class: if share >= 0.9 { "late" } else { "" },
            app: app.clone(),
        }
    }
}

impl CoreRow {
    fn new(core: CoreView, busy_seconds: Option<f64>) -> Self {
        Self {
            core,
            share: figures::percent(share(&core)),
            class: if busy_seconds.is_some() { "late" } else { "" },
            busy: busy_seconds.map(figures::duration),
        }
    }
}

impl CloseReasonRow {
    fn new(closed: &ClosedView) -> Self {
        let reason = match closed.reason.as_str() {
            "client" => "by the client, or the network",
            "slow" => "too slow: they reconnect and recover",
            "no_pong" => "no reply to a ping",
            "protocol" => "broke the WebSocket protocol",
            "drain" => "Weir stopped or restarted",
            "terminated" => "ended by the application or an operator",
            "app" => "the app is gone or disabled",
            other => other,
        };
        Self { reason: reason.to_owned(), count: closed.count }
    }
}
