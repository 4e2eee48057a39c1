//! Connections: of each app and each core, how they end, and who is slow.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_realtime::view::{AppView, ClosedView, CoreView};

use super::super::ranges::{self, Range};
use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use super::CHART_SOURCE;
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::realtime::{Reading, share};
use crate::verdict::Finding;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "connections.html")]
struct ConnectionsPage {
    shell: Shell,
    live: LivePart,
    ranges: Vec<Range>,
    range_seconds: u64,
    chart_source: &'static str,
}

#[derive(Template)]
#[template(path = "connections_live.html")]
struct LivePart {
    reading: Reading,
    findings: Vec<Finding>,
    apps: Vec<AppRow>,
    cores: Vec<CoreRow>,
    closed: Vec<Closed>,
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
    /// For how long it has been nearly full.
    busy: Option<String>,
}

/// Connections that ended for one reason.
struct Closed {
    why: String,
    count: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    range: Option<String>,
}

/// `GET /connections`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let live = LivePart::read(&console)?;
    let wanted = wanted.range.unwrap_or_default();
    let ranges = ranges::all(&ranges::WHOLE, &wanted, |word| format!("/connections?range={word}"));
    Ok(html(&ConnectionsPage {
        shell: Shell::new(&console, &visitor, Section::Connections, "Connections").refreshed(),
        live,
        range_seconds: ranges::chosen_seconds(&ranges),
        ranges,
        chart_source: CHART_SOURCE,
    }))
}

/// `GET /live/connections`
pub(crate) async fn fragment(State(console): State<Arc<Console>>) -> Result<Response, PageError> {
    Ok(html(&LivePart::read(&console)?))
}

impl LivePart {
    fn read(console: &Console) -> Result<Self, PageError> {
        let reading = super::reading(console)?;
        let overview = &reading.overview;
        let busy = reading.trend.cores_busy_seconds.iter().copied();
        let busy = busy.chain(std::iter::repeat(None));
        let cores = overview.cores.iter().zip(busy);
        Ok(Self {
            findings: super::findings(console, "/connections"),
            apps: overview.apps.iter().map(AppRow::of).collect(),
            cores: cores.map(|(core, busy)| CoreRow::of(*core, busy)).collect(),
            closed: overview.totals.closed.iter().map(Closed::of).collect(),
            reading,
        })
    }
}

impl AppRow {
    fn of(app: &AppView) -> Self {
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
    fn of(core: CoreView, busy_seconds: Option<f64>) -> Self {
        Self {
            core,
            share: figures::percent(share(&core)),
            class: if busy_seconds.is_some() { "late" } else { "" },
            busy: busy_seconds.map(figures::duration),
        }
    }
}

impl Closed {
    fn of(closed: &ClosedView) -> Self {
        let why = match closed.reason.as_str() {
            "client" => "by the client, or the network",
            "slow" => "too slow: they come back and recover",
            "no_pong" => "no answer to a ping",
            "protocol" => "broke the WebSocket protocol",
            "drain" => "Weir ended or restarted",
            "terminated" => "ended by the application or an operator",
            "app" => "the app is gone or disabled",
            other => other,
        };
        Self { why: why.to_owned(), count: closed.count }
    }
}
