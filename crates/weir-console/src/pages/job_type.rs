//! One type of job: its errors, its queues, and its course over the last hour.

use askama::Template;
use axum::Json;
use axum::response::IntoResponse;
use serde::Deserialize;
use weir_jobs::handle::JobTypeQuery;
use weir_jobs::view::{
    DurationsView, ErrorGroupView, JobTypeDetails, TypeQueueView, TypeSliceView,
};

use super::chart::ChartPoints;
use super::frame::{PageFrame, Section, html};
use super::job::job_address;
use super::job_types::{about, failed, minutes, note, queue_address};
use super::live_page::LiveSection;
use super::ranges::{self, ChartRange};
use super::request::{PageRequest, PageResult};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::job_location::JobLocation;
use crate::page_error::PageError;
use crate::visible::visible;

/// `?name=..&range=..`
#[derive(Clone, Debug, Deserialize)]
struct TypePageQuery {
    name: String,
    #[serde(default)]
    range: String,
}

#[derive(Template)]
#[template(path = "job_type.html")]
struct JobTypePage {
    frame: PageFrame,
    jobtype: String,
    live: LiveSection,
    ranges: Vec<ChartRange>,
    range_seconds: u64,
    chart_source: String,
    /// Of which the script derives how often it reads them again.
    chart_points: u64,
    retries: String,
    dead: String,
}

#[derive(Template)]
#[template(path = "job_type_live.html")]
struct JobTypeLive {
    /// None: no job of the type has started.
    shown: Option<TypePart>,
}

struct TypePart {
    about: String,
    note: Option<String>,
    running: String,
    started: CountTile,
    ended: CountTile,
    failed: CountTile,
    failed_class: &'static str,
    returned: Option<CountTile>,
    wait: DurationRow,
    run: DurationRow,
    run_time: CountTile,
    errors: Vec<ErrorRow>,
    queues: Vec<TypeQueueRow>,
    slices: Vec<SliceRow>,
}

/// A figure over the recent time, and since the start.
struct CountTile {
    recent: String,
    total: String,
}

struct DurationRow {
    p50: String,
    p95: String,
    p99: String,
    max: String,
}

struct ErrorRow {
    errtype: String,
    recent: String,
    total: String,
    first: String,
    since: String,
    last: String,
    jid: String,
    job_address: String,
    message: String,
}

struct TypeQueueRow {
    name: String,
    address: Option<String>,
    recent: String,
    share: String,
    total: String,
}

struct SliceRow {
    from: String,
    started: String,
    failed: String,
    wait: String,
    run: String,
    run_time: String,
}

/// `GET /type?name=..`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let query: TypePageQuery = request.query()?;
    let with_range = |range| address("/type", &[("name", &query.name), ("range", range)]);
    let ranges = ranges::all(&ranges::TYPES, &query.range, with_range);
    let details = read(&request.console, &query.name, minutes(&ranges))?;
    let live = JobTypeLive { shown: details.as_ref().map(TypePart::new) };
    let fields = [("name", query.name.as_str()), ("range", &query.range)];
    request.live_response(live.render(), &fields, |live| {
        let jobtype = visible(&figures::shortened(&query.name, NAME_CHARACTERS)).into_owned();
        let range_seconds = ranges::chosen_seconds(&ranges);
        let of_type = [("jobtype", query.name.as_str())];
        Ok(html(&JobTypePage {
            frame: request.frame(Section::Types, format!("Type {jobtype}")).refreshed(),
            jobtype,
            live,
            range_seconds,
            chart_points: range_seconds / CHART_SECONDS,
            ranges,
            chart_source: address("/type/chart", &[("name", &query.name)]),
            retries: JobLocation::Retries.address(&of_type),
            dead: JobLocation::Dead.address(&of_type),
        }))
    })
}

/// How often charts are read again.
const CHART_SECONDS: u64 = 10;
/// Characters of a type's name on its page, which may be any text of an address.
const NAME_CHARACTERS: usize = 255;

fn read(console: &Console, name: &str, minutes: u32) -> Result<Option<JobTypeDetails>, PageError> {
    let query = JobTypeQuery { name: name.to_owned(), minutes: Some(minutes) };
    Ok(console.jobs()?.handle.job_type(&query)?)
}

#[derive(Debug, Deserialize)]
struct TypeChartQuery {
    name: String,
    /// Names, separated by commas.
    series: String,
    /// The time span up to now.
    seconds: u64,
}

/// A series of a chart: the value of each slice.
type SliceSeries = fn(&TypeSliceView) -> Option<f64>;

const SERIES: [(&str, SliceSeries); 6] = [
    ("started", |it| Some(figures::as_float(it.counts.started))),
    ("failed", |it| Some(figures::as_float(it.counts.failed))),
    ("wait_p50", |it| it.wait.map(|wait| wait.p50)),
    ("wait_p95", |it| it.wait.map(|wait| wait.p95)),
    ("run_p50", |it| it.run.map(|run| run.p50)),
    ("run_p95", |it| it.run.map(|run| run.p95)),
];

/// `GET /type/chart?name=..&series=..&seconds=..`: a point for each slice of five minutes at its start, and one for the
/// present slice now.
pub(crate) async fn points(request: PageRequest) -> PageResult {
    let query: TypeChartQuery = request.query()?;
    let minutes = u32::try_from(query.seconds.div_ceil(60)).unwrap_or(u32::MAX);
    let details = read(&request.console, &query.name, minutes)?;
    let now = details.as_ref().map(|details| details.source.now);
    let slices = details.map(|details| details.slices).unwrap_or_default();
    let mut columns = Vec::new();
    for name in query.series.split(',').take(SERIES.len()) {
        let series = SERIES.iter().find(|(known, _)| *known == name);
        let (_, value) = series.ok_or_else(|| {
            let name = figures::shortened(name, 100);
            PageError::Invalid(format!("there is no series {name:?}"))
        })?;
        columns.push(slices.iter().chain(slices.last()).map(value).collect::<Vec<_>>());
    }
    let times = slices.iter().map(|slice| slice.at).chain(now).collect();
    Ok(Json(ChartPoints { times, means: columns.clone(), peaks: columns }).into_response())
}

impl TypePart {
    fn new(details: &JobTypeDetails) -> Self {
        let (source, it) = (&details.source, &details.figures);
        let tile = |recent, total| CountTile {
            recent: figures::count(recent),
            total: figures::count(total),
        };
        let (recent, total) = (&it.recent, &it.total);
        let errors = details.errors.iter().chain(&details.other_errors);
        let queues = details.queues.iter().map(|queue| TypeQueueRow {
            address: Some(queue_address(&queue.queue)),
            ..TypeQueueRow::new(queue)
        });
        let other_queues = details.other_queues.iter().map(TypeQueueRow::new);
        Self {
            about: about(source),
            note: note(source),
            running: figures::count(it.running),
            started: tile(recent.started, total.started),
            ended: tile(recent.ended, total.ended),
            failed: CountTile { recent: failed(recent), ..tile(recent.failed, total.failed) },
            failed_class: if recent.failed > 0 { "late" } else { "" },
            returned: (total.returned > 0).then(|| tile(recent.returned, total.returned)),
            wait: DurationRow::new(it.wait.as_ref()),
            run: DurationRow::new(it.run.as_ref()),
            run_time: CountTile {
                recent: figures::duration(recent.run_seconds),
                total: figures::duration(total.run_seconds),
            },
            errors: errors.map(|error| ErrorRow::new(error, source.now)).collect(),
            queues: queues.chain(other_queues).collect(),
            slices: details.slices.iter().rev().map(SliceRow::new).collect(),
        }
    }
}

impl DurationRow {
    fn new(durations: Option<&DurationsView>) -> Self {
        let text = |value: fn(&DurationsView) -> f64| {
            durations.map_or_else(|| "–".to_owned(), |it| figures::duration(value(it)))
        };
        Self {
            p50: text(|it| it.p50),
            p95: text(|it| it.p95),
            p99: text(|it| it.p99),
            max: text(|it| it.max),
        }
    }
}

impl ErrorRow {
    fn new(error: &ErrorGroupView, now: f64) -> Self {
        Self {
            errtype: visible(&error.errtype).into_owned(),
            recent: figures::count(error.recent),
            total: figures::count(error.total),
            first: figures::moment(error.first_at),
            since: figures::whole_duration(error.lasted(now)),
            last: figures::relative(now, error.last_at),
            jid: visible(&error.jid).into_owned(),
            job_address: job_address(&error.jid),
            message: visible(&error.message).into_owned(),
        }
    }
}

impl TypeQueueRow {
    fn new(queue: &TypeQueueView) -> Self {
        Self {
            name: visible(&queue.queue).into_owned(),
            address: None,
            recent: figures::count(queue.recent),
            share: figures::percent(queue.recent_share),
            total: format!(
                "{} ({})",
                figures::count(queue.total),
                figures::percent(queue.total_share)
            ),
        }
    }
}

impl SliceRow {
    fn new(slice: &TypeSliceView) -> Self {
        let p95 = |it: Option<&DurationsView>| {
            it.map_or_else(|| "–".to_owned(), |it| figures::duration(it.p95))
        };
        Self {
            from: figures::moment(slice.at),
            started: figures::count(slice.counts.started),
            failed: failed(&slice.counts),
            wait: p95(slice.wait.as_ref()),
            run: p95(slice.run.as_ref()),
            run_time: figures::duration(slice.counts.run_seconds),
        }
    }
}
