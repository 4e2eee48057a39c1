//! The types of jobs: what each costs, and how often it fails.

use askama::Template;
use serde::Deserialize;
use weir_jobs::handle::{JobTypesQuery, TypeOrder};
use weir_jobs::view::{
    DurationsView, JobTypeView, JobTypesView, LastFailureView, TypeCounts, TypeFiguresSource,
};

use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::ranges::{self, ChartRange};
use super::request::{PageRequest, PageResult};
use crate::address::address;
use crate::figures;
use crate::job_location::JobLocation;
use crate::visible::visible;

/// `?sort=..&queue=..&range=..`
#[derive(Clone, Debug, Default, Deserialize)]
struct TypesPageQuery {
    /// An unknown order is the default.
    #[serde(default)]
    sort: String,
    #[serde(default)]
    queue: String,
    #[serde(default)]
    range: String,
}

#[derive(Template)]
#[template(path = "job_types.html")]
struct JobTypesPage {
    frame: PageFrame,
    live: LiveSection,
    ranges: Vec<ChartRange>,
    sorts: Vec<SortChoice>,
    query: TypesPageQuery,
}

#[derive(Template)]
#[template(path = "job_types_live.html")]
struct JobTypesLive {
    summary: String,
    note: Option<String>,
    rows: Vec<TypeRow>,
}

struct SortChoice {
    name: &'static str,
    label: &'static str,
    is_chosen: bool,
}

struct TypeRow {
    address: String,
    jobtype: String,
    is_other: bool,
    started: String,
    failed: String,
    failed_class: &'static str,
    running: String,
    wait: String,
    run: String,
    run_time: String,
    last_failure: Option<String>,
}

/// Returns the address of the page of one type.
pub(crate) fn type_address(jobtype: &str) -> String {
    address("/type", &[("name", jobtype)])
}

/// Returns the address of the types that had jobs from a queue.
pub(crate) fn queue_types_address(queue: &str) -> String {
    address("/types", &[("queue", queue)])
}

/// `GET /types`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let query: TypesPageQuery = request.query()?;
    let fields = [("sort", query.sort.as_str()), ("queue", &query.queue), ("range", &query.range)];
    let with_range = |range| address("/types", &[&fields[..2], &[("range", range)]].concat());
    let ranges = ranges::all(&ranges::TYPES, &query.range, with_range);
    let sort = query.order();
    let types = request.console.jobs()?.handle.job_types(&JobTypesQuery {
        sort,
        minutes: Some(minutes(&ranges)),
        queue: (!query.queue.is_empty()).then(|| query.queue.clone()),
    })?;
    let rows_max = request.console.deps.settings.limits.page_queues;
    let live = JobTypesLive::new(&types, &query.queue, rows_max);
    request.live_response(live.render(), &fields, |live| {
        Ok(html(&JobTypesPage {
            frame: request.frame(Section::Types, "Job types").refreshed(),
            live,
            ranges,
            sorts: TypeOrder::ALL.map(|order| SortChoice::new(order, sort)).into(),
            query: TypesPageQuery { queue: visible(&query.queue).into_owned(), ..query.clone() },
        }))
    })
}

/// Returns the chosen range in minutes.
pub(super) fn minutes(ranges: &[ChartRange]) -> u32 {
    u32::try_from(ranges::chosen_seconds(ranges) / 60).unwrap_or(u32::MAX)
}

impl TypesPageQuery {
    fn order(&self) -> TypeOrder {
        let named = TypeOrder::ALL.into_iter().find(|order| order.name() == self.sort);
        named.unwrap_or_default()
    }
}

impl SortChoice {
    fn new(order: TypeOrder, chosen: TypeOrder) -> Self {
        let label = match order {
            TypeOrder::Run => "most run time first",
            TypeOrder::Failed => "most failures first",
            TypeOrder::Started => "most started first",
            TypeOrder::Wait => "longest wait first",
            TypeOrder::Name => "by name",
        };
        Self { name: order.name(), label, is_chosen: order == chosen }
    }
}

impl JobTypesLive {
    fn new(types: &JobTypesView, queue: &str, rows_max: usize) -> Self {
        let source = &types.source;
        let shown = types.types.iter().take(rows_max).chain(&types.other);
        let rows: Vec<_> =
            shown.map(|it| TypeRow::new(it, types.run_seconds, source.now)).collect();
        let mut summary = match rows.len() {
            0 => {
                let of = if queue.is_empty() { "No job" } else { "No job from this queue" };
                format!("{of} has started since {} UTC.", figures::moment(source.since))
            }
            _ => about(source),
        };
        if types.types.len() > rows_max {
            let left_out = types.types.len() - rows_max;
            summary.push_str(&format!(
                " {} not shown.",
                figures::counted(left_out as u64, "more type")
            ));
        }
        if let Some(other) = &types.other {
            summary.push_str(&format!(
                " “{}” has all types beyond the first {} (jobs.limits.advanced.job_types_max).",
                other.jobtype,
                figures::count(types.types_max)
            ));
        }
        Self { summary, note: note(source), rows }
    }
}

/// Describes what the figures are about.
pub(super) fn about(source: &TypeFiguresSource) -> String {
    format!(
        "What workers did through {} in the last {}; totals since {} UTC.",
        visible(&source.node),
        figures::whole_duration(source.window_seconds),
        figures::moment(source.since)
    )
}

/// Returns what must be known about the figures.
pub(super) fn note(source: &TypeFiguresSource) -> Option<String> {
    source.is_shared.then(|| {
        "Jobs that other nodes or Sidekiq’s own workers fetch are not counted here. Each node has its own figures."
            .to_owned()
    })
}

impl TypeRow {
    fn new(it: &JobTypeView, all_seconds: f64, now: f64) -> Self {
        let share = if all_seconds > 0.0 { it.recent.run_seconds / all_seconds } else { 0.0 };
        Self {
            address: type_address(&it.jobtype),
            jobtype: visible(&it.jobtype).into_owned(),
            is_other: it.jobtype == weir_jobs::job_types::OTHER_TYPES,
            started: figures::count(it.recent.started),
            failed: failed(&it.recent),
            failed_class: if it.recent.failed > 0 { "late" } else { "" },
            running: figures::count(it.running),
            wait: percentiles(it.wait.as_ref()),
            run: percentiles(it.run.as_ref()),
            run_time: format!(
                "{} ({})",
                figures::duration(it.recent.run_seconds),
                figures::percent(share)
            ),
            last_failure: it.last_failure.as_ref().map(|failure| last_failure(failure, now)),
        }
    }
}

/// Formats failures with their share in the jobs that ended: `3 (2 %)`.
pub(super) fn failed(counts: &TypeCounts) -> String {
    let count = figures::count(counts.failed);
    match counts.failed_share {
        Some(share) if counts.failed > 0 => format!("{count} ({})", figures::percent(share)),
        _ => count,
    }
}

fn percentiles(durations: Option<&DurationsView>) -> String {
    let text = |it: &DurationsView| [it.p50, it.p95, it.p99].map(figures::duration).join(" / ");
    durations.map_or_else(|| "–".to_owned(), text)
}

fn last_failure(failure: &LastFailureView, now: f64) -> String {
    format!(
        "{} {}, for {}",
        visible(&failure.errtype),
        figures::relative(now, failure.at),
        figures::whole_duration(failure.lasted(now))
    )
}

/// Returns the address of a queue's page.
pub(super) fn queue_address(name: &str) -> String {
    JobLocation::Queue(name.to_owned()).address(&[])
}
