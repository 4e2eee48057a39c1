//! One queue: its figures, what is wrong with it, who fetches it, its charts. Its jobs are a list
//! like others ([`super::jobs`]), which puts this above them.

use std::sync::Arc;

use askama::Template;
use axum::Json;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_jobs::view;

use super::chart::{self, Chart};
use super::queues::Row;
use super::ranges::{self, Range};
use super::{PageError, html, reading};
use crate::address::address;
use crate::console::Console;
use crate::fetchers::{Fetchers, is_running};
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::live::Reading;
use crate::place::Place;
use crate::verdict::Finding;
use crate::visible::visible;

/// What stands above a queue's jobs.
pub(crate) struct Head {
    pub(crate) live: LivePart,
    pub(crate) live_address: String,
    pub(crate) name: String,
    pub(crate) ranges: Vec<Range>,
    pub(crate) range_seconds: u64,
    /// None: the queue has no charts.
    pub(crate) chart_source: Option<String>,
    /// Points of one chart.
    pub(crate) chart_points: u64,
    pub(crate) chart_queues_max: String,
}

/// What the script reads again.
#[derive(Template)]
#[template(path = "queue_live.html")]
pub(crate) struct LivePart {
    queue: view::QueueView,
    drain: String,
    target: Option<String>,
    wait_class: &'static str,
    confirm_address: String,
    findings: Vec<Finding>,
    who: String,
    workers: Vec<Worker>,
    more_workers: usize,
    csrf: String,
}

/// A worker that fetches the queue.
struct Worker {
    name: String,
    state: &'static str,
    busy: u64,
    beat: String,
    /// Queues that it fetches beside this one.
    others: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    name: String,
}

/// The head of the page of queue `name`; `with_range` says where it is with another stretch of
/// time.
pub(crate) async fn head(
    console: &Console,
    visitor: &Visitor,
    name: &str,
    range: &str,
    with_range: impl Fn(&'static str) -> String,
) -> Result<Head, PageError> {
    let reading = reading::fresh(console).await?;
    let ranges = ranges::all(&ranges::QUEUE, range, with_range);
    let range_seconds = ranges::chosen_seconds(&ranges);
    let source = address("/queue/chart", &[("name", name)]);
    Ok(Head {
        live: LivePart::of(&reading, name, visitor)?,
        live_address: address("/live/queue", &[("name", name)]),
        name: name.to_owned(),
        range_seconds,
        ranges,
        chart_source: console.jobs()?.queue_charts.of(name).map(|_| source),
        chart_points: (range_seconds / SECONDS_PER_POINT_MIN).min(CHART_POINTS_MAX),
        chart_queues_max: figures::count(console.deps.settings.limits.chart_queues_max as u64),
    })
}

/// Queues are read about twice in this time while nobody watches: a finer chart would have holes.
const SECONDS_PER_POINT_MIN: u64 = 10;
const CHART_POINTS_MAX: u64 = 360;

/// `GET /live/queue?name=..`
pub(crate) async fn fragment(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(Named { name }): Query<Named>,
) -> Result<Response, PageError> {
    let reading = reading::shared(&console).await?;
    Ok(html(&LivePart::of(&reading, &name, &visitor)?))
}

/// `GET /queue/chart?name=..&series=..&seconds=..`
pub(crate) async fn points(
    State(console): State<Arc<Console>>,
    Query(Named { name }): Query<Named>,
    wanted: Query<chart::Wanted>,
) -> Result<Json<Chart>, PageError> {
    let history = console.jobs()?.queue_charts.of(&name);
    let name = figures::shortened(&name, 100);
    let history =
        history.ok_or_else(|| PageError::NotFound(format!("queue {name:?} has no charts")))?;
    chart::read(&console, history, wanted.0).await.map(Json)
}

/// Workers shown on a queue's page; all are on theirs.
const WORKERS_SHOWN: usize = 12;

impl LivePart {
    fn of(reading: &Reading, name: &str, visitor: &Visitor) -> Result<Self, PageError> {
        let jobs = reading.jobs()?;
        let queue = jobs.queues.iter().find(|queue| queue.name == name);
        let queue = queue.ok_or_else(|| super::queues::unknown(name))?;
        let fetchers = Fetchers::of(&jobs.workers);
        let row = Row::new(queue, &fetchers);
        let mut workers: Vec<&view::JobWorkerView> =
            jobs.workers.iter().filter(|worker| asks_for(worker, name)).collect();
        workers.sort_by_key(|worker| (!is_running(worker), &worker.hostname, worker.pid));
        let count = workers.len();
        workers.truncate(WORKERS_SHOWN);
        let page = Place::Queue(name.to_owned()).address(&[]);
        let findings = reading.verdict.findings.iter().filter(|finding| finding.link == page);
        let now = jobs.overview.now;
        Ok(Self {
            drain: row.drain,
            target: row.target,
            wait_class: row.wait_class,
            confirm_address: row.confirm_address,
            findings: findings.cloned().collect(),
            who: who(&fetchers, name),
            more_workers: count - workers.len(),
            workers: workers.into_iter().map(|worker| Worker::of(worker, now)).collect(),
            csrf: visitor.csrf.clone(),
            queue: queue.clone(),
        })
    }
}

fn asks_for(worker: &view::JobWorkerView, queue: &str) -> bool {
    worker.queues.binary_search_by(|name| name.as_str().cmp(queue)).is_ok()
}

/// Who fetches the queue, in a sentence.
fn who(fetchers: &Fetchers<'_>, name: &str) -> String {
    let count = fetchers.count(name);
    let leaving = figures::counted(count.leaving, "worker");
    match (count.running, count.leaving) {
        (0, 0) if !fetchers.is_surely_left(name) => {
            "No worker is known to fetch it; some ask for more queues than are kept \
             (jobs.limits.worker_queues_max)."
                .to_owned()
        }
        (0, 0) => "No worker fetches it.".to_owned(),
        (0, _) => format!("No worker takes from it: {leaving} told to take no more."),
        (1, 0) => "1 worker fetches it.".to_owned(),
        (running, 0) => format!("{} workers fetch it.", figures::count(running)),
        (running, _) => {
            let running = figures::counted(running, "worker");
            format!("{running} running, {leaving} told to take no more.")
        }
    }
}

impl Worker {
    fn of(worker: &view::JobWorkerView, now: f64) -> Self {
        let host = if worker.hostname.is_empty() { &worker.wid } else { &worker.hostname };
        Self {
            name: visible(&format!("{host} · pid {}", worker.pid)).into_owned(),
            state: super::workers::state_word(&worker.state),
            busy: worker.busy,
            beat: figures::relative(now, worker.last_beat_at),
            others: match worker.queues_total {
                ..=1 => "this queue only".to_owned(),
                all => format!("it and {}", figures::counted(all - 1, "other queue")),
            },
        }
    }
}
