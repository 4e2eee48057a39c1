//! What pages with charts of what is observed have in common: a part that is read again, and charts below it.

use askama::Template;
use axum::response::Response;

use super::super::ranges::{self, Range};
use super::super::shell::{Section, Shell};
use super::super::theme::Theme;
use super::super::{PageError, html};
use super::{CHART_SOURCE, Wanted};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;

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
pub(super) struct Chart {
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

impl Charts {
    /// Of the history of all that is observed.
    pub(super) fn of_all(each: &'static [Chart]) -> Self {
        Self { source: Some(CHART_SOURCE.to_owned()), each, of_a_queue: false }
    }
}
