//! Pages with a live section and charts below it.

use askama::Template;

use super::super::frame::{PageFrame, Section, html};
use super::super::live_page::LiveSection;
use super::super::ranges::{self, ChartRange, RangeQuery};
use super::super::request::{PageRequest, PageResult};
use super::CHART_SOURCE;
use crate::address::address;
use crate::figures;

/// A page with charts.
pub(super) struct ChartedPage<'a> {
    pub(super) section: Section,
    pub(super) title: String,
    /// Such as `/doctor`.
    pub(super) path: &'static str,
    /// The query of its address.
    pub(super) fields: &'a [(&'a str, &'a str)],
    pub(super) charts: PageCharts,
}

/// The charts of a page.
pub(super) struct PageCharts {
    /// None: there is no history yet.
    pub(super) source: Option<String>,
    pub(super) each: &'static [ChartFigure],
    /// Whether the charts are of one queue, whose history is shorter and has fewer rows.
    pub(super) of_a_queue: bool,
}

/// A chart in the format of the script.
pub(in crate::pages) struct ChartFigure {
    /// Such as `waiting:Waiting,in_hand:In progress`.
    pub(super) series: &'static str,
    pub(super) unit: &'static str,
    /// For screen readers.
    pub(super) name: &'static str,
    pub(super) caption: &'static str,
}

#[derive(Template)]
#[template(path = "observed.html")]
struct ObservedPage {
    frame: PageFrame,
    live: LiveSection,
    ranges: Vec<ChartRange>,
    range_seconds: u64,
    charts: ChartsPart,
}

struct ChartsPart {
    source: Option<String>,
    each: &'static [ChartFigure],
    points_max: Option<u64>,
    queues_max: String,
}

/// Queues have a row about every five seconds: a finer chart would have gaps.
const SECONDS_PER_POINT_MIN: u64 = 10;
const CHART_POINTS_MAX: u64 = 360;

impl PageCharts {
    /// Returns charts of the whole observed system.
    pub(super) fn of_all(each: &'static [ChartFigure]) -> Self {
        Self { source: Some(CHART_SOURCE.to_owned()), each, of_a_queue: false }
    }
}

impl ChartedPage<'_> {
    /// Responds with the rendered live section.
    pub(super) fn response(
        self,
        request: &PageRequest,
        rendered: askama::Result<String>,
    ) -> PageResult {
        let Self { section, title, path, fields, charts } = self;
        let range = request.query::<RangeQuery>()?.range_name();
        request.live_response(rendered, fields, |live| {
            let choices = if charts.of_a_queue { &ranges::QUEUE } else { &ranges::WHOLE };
            let ranges = ranges::all(choices, &range, |key| {
                address(path, &[fields, &[("range", key)]].concat())
            });
            let range_seconds = ranges::chosen_seconds(&ranges);
            let points = (range_seconds / SECONDS_PER_POINT_MIN).min(CHART_POINTS_MAX);
            let limits = &request.console.deps.settings.limits;
            Ok(html(&ObservedPage {
                frame: request.frame(section, title).refreshed(),
                live,
                ranges,
                range_seconds,
                charts: ChartsPart {
                    source: charts.source,
                    each: charts.each,
                    points_max: charts.of_a_queue.then_some(points),
                    queues_max: figures::number(limits.chart_queues_max),
                },
            }))
        })
    }
}
