//! One queue: its figures, findings, workers and charts. Its jobs are a list like others
//! ([`super::jobs`]), which has this header.

use askama::Template;
use weir_advisor::VerdictFinding;
use weir_jobs::view;

use super::chart;
use super::live_page::LiveSection;
use super::queues::{self, QueueNameQuery, QueueTableRow};
use super::ranges::{self, ChartRange};
use super::request::{PageRequest, PageResult};
use super::snapshot;
use super::workers::state_word;
use crate::address::address;
use crate::fetchers::{Fetchers, is_running};
use crate::figures;
use crate::guard::form_access::FormAccess;
use crate::guard::visitor::Visitor;
use crate::job_location::JobLocation;
use crate::live::ConsoleSnapshot;
use crate::page_error::PageError;
use crate::visible::visible;

/// The part of a queue's page above its jobs.
pub(crate) struct QueueHeader {
    pub(crate) live: LiveSection,
    pub(crate) name: String,
    pub(crate) ranges: Vec<ChartRange>,
    pub(crate) range_seconds: u64,
    /// None: the queue has no charts.
    pub(crate) chart_source: Option<String>,
    /// Points of one chart.
    pub(crate) chart_points: u64,
    pub(crate) chart_queues_max: String,
}

/// The live section.
#[derive(Template)]
#[template(path = "queue_live.html")]
struct QueueLive {
    queue: view::QueueView,
    drain: String,
    target: Option<String>,
    new_jobs: Option<String>,
    latency_class: &'static str,
    confirm_address: String,
    findings: Vec<VerdictFinding>,
    fetched_by: String,
    workers: Vec<QueueWorkerRow>,
    more_workers: usize,
    forms: FormAccess,
}

/// A worker that fetches the queue.
struct QueueWorkerRow {
    name: String,
    state: &'static str,
    busy: u64,
    heartbeat: String,
    /// Other queues that it fetches.
    others: String,
}

/// Renders the live section of the page of queue `name`.
pub(crate) async fn live_section(
    request: &PageRequest,
    name: &str,
) -> Result<LiveSection, PageError> {
    let snapshot = snapshot::for_request(request).await?;
    let queue = QueueLive::new(&snapshot, name, &request.visitor)?;
    request.live_section(queue.render(), &[("name", name)])
}

/// Returns the header of the page of queue `name`; `with_range` is its address with a time range.
pub(crate) async fn header(
    request: &PageRequest,
    name: &str,
    range: &str,
    with_range: impl Fn(&'static str) -> String,
) -> Result<QueueHeader, PageError> {
    let console = &request.console;
    let ranges = ranges::all(&ranges::QUEUE, range, with_range);
    let range_seconds = ranges::chosen_seconds(&ranges);
    let source = address("/queue/chart", &[("name", name)]);
    Ok(QueueHeader {
        live: live_section(request, name).await?,
        name: name.to_owned(),
        range_seconds,
        ranges,
        chart_source: console.jobs()?.queue_charts.get(name).map(|_| source),
        chart_points: (range_seconds / SECONDS_PER_POINT_MIN).min(CHART_POINTS_MAX),
        chart_queues_max: figures::count(console.deps.settings.limits.chart_queues_max as u64),
    })
}

/// Without open streams, queues are read about twice in this time: a finer chart would have gaps.
const SECONDS_PER_POINT_MIN: u64 = 10;
const CHART_POINTS_MAX: u64 = 360;

/// `GET /queue/chart?name=..&series=..&seconds=..`
pub(crate) async fn points(request: PageRequest) -> PageResult {
    let QueueNameQuery { name } = request.query()?;
    let history = request.console.jobs()?.queue_charts.get(&name);
    let history = history.ok_or_else(|| {
        let name = figures::shortened(&name, 100);
        PageError::NotFound(format!("queue {name:?} has no charts"))
    })?;
    chart::read(&request, history).await
}

/// Limit of workers on a queue's page; all are on the workers page.
const WORKERS_SHOWN: usize = 12;

impl QueueLive {
    fn new(reading: &ConsoleSnapshot, name: &str, visitor: &Visitor) -> Result<Self, PageError> {
        let jobs = reading.jobs()?;
        let queue = jobs.queues.iter().find(|queue| queue.name == name);
        let queue = queue.ok_or_else(|| queues::unknown(name))?;
        let fetchers = Fetchers::new(&jobs.workers);
        let row = QueueTableRow::new(queue, &fetchers);
        let mut workers: Vec<&view::JobWorkerView> =
            jobs.workers.iter().filter(|worker| fetches(worker, name)).collect();
        workers.sort_by_key(|worker| (!is_running(worker), &worker.hostname, worker.pid));
        let count = workers.len();
        workers.truncate(WORKERS_SHOWN);
        let page = JobLocation::Queue(name.to_owned()).address(&[]);
        let findings = reading.verdict.findings.iter().filter(|finding| finding.page == page);
        let now = jobs.overview.now;
        Ok(Self {
            drain: row.drain,
            target: row.target,
            new_jobs: row.new_jobs,
            latency_class: row.latency_class,
            confirm_address: row.confirm_address,
            findings: findings.cloned().collect(),
            fetched_by: fetched_by(&fetchers, name),
            more_workers: count - workers.len(),
            workers: workers.into_iter().map(|worker| QueueWorkerRow::new(worker, now)).collect(),
            forms: visitor.forms(),
            queue: queue.clone(),
        })
    }
}

fn fetches(worker: &view::JobWorkerView, queue: &str) -> bool {
    worker.queues.binary_search_by(|name| name.as_str().cmp(queue)).is_ok()
}

/// Describes the workers that fetch the queue in a sentence.
fn fetched_by(fetchers: &Fetchers<'_>, name: &str) -> String {
    let count = fetchers.count(name);
    let leaving = figures::counted(count.leaving, "worker");
    match (count.running, count.leaving) {
        (0, 0) if !fetchers.is_certainly_unfetched(name) => {
            "No worker is known to fetch it; some workers fetch more queues than Weir records \
             (jobs.limits.advanced.worker_queues_max)."
                .to_owned()
        }
        (0, 0) => "No worker fetches it.".to_owned(),
        (0, _) => format!("No worker fetches it; {leaving} quiet."),
        (1, 0) => "1 worker fetches it.".to_owned(),
        (running, 0) => format!("{} workers fetch it.", figures::count(running)),
        (running, _) => {
            let running = figures::counted(running, "worker");
            format!("{running} running, {leaving} quiet.")
        }
    }
}

impl QueueWorkerRow {
    fn new(worker: &view::JobWorkerView, now: f64) -> Self {
        let host = if worker.hostname.is_empty() { &worker.wid } else { &worker.hostname };
        Self {
            name: visible(&format!("{host} · pid {}", worker.pid)).into_owned(),
            state: state_word(&worker.state),
            busy: worker.busy,
            heartbeat: figures::relative(now, worker.last_beat_at),
            others: match worker.queues_total {
                ..=1 => "this queue only".to_owned(),
                all => format!("this and {}", figures::counted(all - 1, "other queue")),
            },
        }
    }
}
