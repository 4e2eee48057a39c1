//! What pages with charts of what is observed have in common: a part that is read again, and charts below it.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::Response;
use axum::routing::get;

use super::super::ranges::{self, Range};
use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use super::{CHART_SOURCE, Wanted};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;

/// What is read again of a page that is about all that is observed.
pub(in crate::pages) trait Live: Template + Sized + 'static {
    const SECTION: Section;
    const TITLE: &'static str;
    /// `/doctor`; what is read again is at `/live/doctor`.
    const PATH: &'static str;
    const CHARTS: &'static [Chart];

    fn read(console: &Console) -> Result<Self, PageError>;
}

/// The page, and what is read again of it.
pub(in crate::pages) fn routes<L: Live>() -> Router<Arc<Console>> {
    let live = format!("/live{}", L::PATH);
    Router::new().route(L::PATH, get(page::<L>)).route(&live, get(fragment::<L>))
}

async fn page<L: Live>(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let page = Page {
        section: L::SECTION,
        title: L::TITLE.to_owned(),
        path: L::PATH,
        fields: &[],
        charts: Charts {
            source: Some(CHART_SOURCE.to_owned()),
            each: L::CHARTS,
            of_a_queue: false,
        },
    };
    page.show(&console, &visitor, &wanted, &L::read(&console)?)
}

async fn fragment<L: Live>(State(console): State<Arc<Console>>) -> Result<Response, PageError> {
    Ok(html(&L::read(&console)?))
}

/// One page.
pub(super) struct Page<'a> {
    pub(super) section: Section,
    pub(super) title: String,
    /// `/doctor`; what is read again is at `/live/doctor`.
    pub(super) path: &'static str,
    /// More of its address.
    pub(super) fields: &'a [(&'a str, &'a str)],
    pub(super) charts: Charts,
}

/// Its charts.
pub(super) struct Charts {
    /// None: there is no history yet.
    pub(super) source: Option<String>,
    pub(super) each: &'static [Chart],
    /// The history of a queue is kept for a shorter time and in fewer rows.
    pub(super) of_a_queue: bool,
}

/// As the script reads them.
pub(in crate::pages) struct Chart {
    /// `waiting:Waiting,in_hand:In hand`
    pub(super) series: &'static str,
    pub(super) unit: &'static str,
    /// For who does not see it.
    pub(super) name: &'static str,
    pub(super) caption: &'static str,
}

#[derive(Template)]
#[template(path = "observed.html")]
struct Frame {
    shell: Shell,
    live_address: String,
    /// Rendered.
    live: String,
    ranges: Vec<Range>,
    range_seconds: u64,
    charts: ChartsPart,
}

struct ChartsPart {
    source: Option<String>,
    each: &'static [Chart],
    points_max: Option<u64>,
    queues_max: String,
}

/// Queues have a row for about every fifth second: a finer chart would have holes.
const SECONDS_PER_POINT_MIN: u64 = 10;
const CHART_POINTS_MAX: u64 = 360;

impl Page<'_> {
    /// With its live part, and its charts for the stretch of time that is wanted.
    pub(super) fn show(
        self,
        console: &Console,
        visitor: &Visitor,
        wanted: &Wanted,
        live: &impl Template,
    ) -> Result<Response, PageError> {
        let Self { section, title, path, fields, charts } = self;
        let known = if charts.of_a_queue { &ranges::QUEUE } else { &ranges::WHOLE };
        let ranges = ranges::all(known, wanted.range.as_deref().unwrap_or_default(), |word| {
            address(path, &[fields, &[("range", word)]].concat())
        });
        let range_seconds = ranges::chosen_seconds(&ranges);
        let points = (range_seconds / SECONDS_PER_POINT_MIN).min(CHART_POINTS_MAX);
        Ok(html(&Frame {
            shell: Shell::new(console, visitor, section, title).refreshed(),
            live_address: address(&format!("/live{path}"), fields),
            live: live.render().map_err(|error| PageError::Invalid(error.to_string()))?,
            ranges,
            range_seconds,
            charts: ChartsPart {
                source: charts.source,
                each: charts.each,
                points_max: charts.of_a_queue.then_some(points),
                queues_max: figures::number(console.deps.settings.limits.chart_queues_max),
            },
        }))
    }
}
