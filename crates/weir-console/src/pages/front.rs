//! The front's page: each app's request queue, its workers, and the commands to them.

mod act;

use std::time::Duration;

use askama::Template;
use serde::Deserialize;
use weir_advisor::VerdictFinding;
use weir_front::view::ReasonCount;

pub(crate) use self::act::act;
use super::chart;
use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::named_value::NamedValue;
use super::ranges::{self, ChartRange};
use super::request::{PageRequest, PageResult};
use crate::figures;
use crate::front::{
    AppActivity, CHARTED_APPS_MAX, FrontApp, FrontSnapshot, FrontWorker, column, reason_text,
    reasons_text,
};
use crate::guard::form_access::FormAccess;
use crate::live::Latest;
use crate::page_error::PageError;
use crate::visible::visible;

/// The address of chart data.
const CHART_SOURCE: &str = "/front/chart";

#[derive(Template)]
#[template(path = "front.html")]
struct FrontPage {
    frame: PageFrame,
    live: LiveSection,
    has_apps: bool,
    /// The apps whose workers Weir runs.
    scalable: Vec<ScalableApp>,
    charts: Vec<AppCharts>,
    charted_max: Option<usize>,
    ranges: Vec<ChartRange>,
    range_seconds: u64,
    chart_source: &'static str,
}

/// An app and its configured number of workers.
struct ScalableApp {
    name: String,
    processes: u32,
}

/// The series of one app.
struct AppCharts {
    app: String,
    rates: String,
    waiting: String,
    lengths: String,
}

#[derive(Template)]
#[template(path = "front_live.html")]
struct FrontLive {
    findings: Vec<VerdictFinding>,
    apps: Vec<AppPart>,
    forms: FormAccess,
}

struct AppPart {
    app: FrontApp,
    queue_time: Quantiles,
    response: Quantiles,
    requests: String,
    /// A dash if no requests were given.
    jain_index: String,
    rejected: u64,
    /// Why these were rejected.
    rejections: String,
    shed: u64,
    evictions: u64,
    /// Facts since the start.
    facts: Vec<NamedValue>,
    rows: Vec<FrontWorkerRow>,
}

/// The median and the 99th percentile.
struct Quantiles {
    p50: String,
    p99: String,
}

struct FrontWorkerRow {
    /// The slot for the form; None: Weir does not run the worker.
    number: Option<u32>,
    /// Distinguishes its buttons from those of a successor in the same slot.
    key: String,
    name: String,
    state: String,
    is_wrong: bool,
    process: String,
    requests: u32,
    streams: u32,
    oldest: String,
    memory: String,
    queue_time: String,
    assigned: u64,
    restarts: String,
    recycled: Option<String>,
    problem: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FrontQuery {
    range: Option<String>,
    done: Option<String>,
}

/// `GET /front`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let front = request.console.front()?;
    let live_data = FrontLive::read(&request)?;
    let query: FrontQuery = request.query()?;
    request.live_response(live_data.render(), &[], |live| {
        let range = query.range.unwrap_or_default();
        let ranges = ranges::all(&ranges::WHOLE, &range, |range| format!("/front?range={range}"));
        let apps = || live_data.apps.iter().map(|part| &part.app);
        let scalable = |app: &FrontApp| {
            Some(ScalableApp { name: app.name.clone(), processes: app.processes? })
        };
        let charted = apps().filter(|app| front.is_charted(&app.name));
        let flash = query.done.as_deref().and_then(act::flash_message).map(str::to_owned);
        Ok(html(&FrontPage {
            frame: request.frame(Section::Front, "Front").refreshed().with_flash(flash),
            has_apps: !live_data.apps.is_empty(),
            scalable: apps().filter_map(scalable).collect(),
            charts: charted.map(|app| AppCharts::new(&app.name)).collect(),
            charted_max: (live_data.apps.len() > CHARTED_APPS_MAX).then_some(CHARTED_APPS_MAX),
            range_seconds: ranges::chosen_seconds(&ranges),
            ranges,
            chart_source: CHART_SOURCE,
            live,
        }))
    })
}

/// `GET /front/chart?series=shop.waiting&seconds=..`
pub(crate) async fn points(request: PageRequest) -> PageResult {
    let no_charts = || PageError::NotFound("there are no apps, and so no charts".to_owned());
    let history = request.console.front()?.history.clone().ok_or_else(no_charts)?;
    chart::read(&request, history).await
}

impl AppCharts {
    fn new(app: &str) -> Self {
        let series = |names: &[(&str, &str)]| {
            let series = names.iter().map(|(name, shown)| format!("{}:{shown}", column(app, name)));
            series.collect::<Vec<String>>().join(",")
        };
        Self {
            app: app.to_owned(),
            rates: series(&[
                ("requests_per_second", "Responses"),
                ("refused_per_second", "Rejected"),
            ]),
            waiting: series(&[("waiting", "Waiting"), ("busy_peak", "In progress at most")]),
            lengths: series(&[
                ("queue_seconds_p99", "Queue time p99"),
                ("answer_seconds_p50", "Response p50"),
                ("answer_seconds_p99", "Response p99"),
            ]),
        }
    }
}

impl FrontLive {
    fn read(request: &PageRequest) -> Result<Self, PageError> {
        let console = &request.console;
        let front = console.front()?;
        let latest = match console.deps.live.latest() {
            Latest::Snapshot(reading) => Some(reading),
            Latest::Nothing | Latest::Down(_) | Latest::Ended => None,
        };
        let reading = front.read(latest.as_ref().and_then(|snapshot| snapshot.front.as_ref()));
        let findings = latest.iter().flat_map(|snapshot| &snapshot.verdict.findings);
        Ok(Self {
            findings: findings.filter(|finding| finding.page == "/front").cloned().collect(),
            apps: reading.apps.iter().map(|app| AppPart::new(app, &reading)).collect(),
            forms: request.visitor.forms(),
        })
    }
}

impl AppPart {
    fn new(app: &FrontApp, reading: &FrontSnapshot) -> Self {
        let minute = reading.minute(app);
        Self {
            queue_time: Quantiles::new(&minute.waits),
            response: Quantiles::new(&minute.responses),
            requests: figures::rate(minute.requests_per_second),
            jain_index: minute.jain_index.map_or_else(unknown, |index| format!("{index:.2}")),
            rejected: minute.rejected,
            rejections: reasons_text(&minute.rejections),
            shed: minute.shed,
            evictions: minute.evictions,
            facts: facts(app),
            rows: app.workers.iter().map(|worker| FrontWorkerRow::new(worker, &minute)).collect(),
            app: app.clone(),
        }
    }
}

impl Quantiles {
    fn new(distribution: &weir_front::Distribution) -> Self {
        let shown = |quantile| length(distribution.quantile(quantile));
        Self { p50: shown(0.5), p99: shown(0.99) }
    }
}

fn facts(app: &FrontApp) -> Vec<NamedValue> {
    let fact = |name, value| NamedValue { name, value };
    let evicted = fact("Evicted", figures::count(app.evictions));
    let totals = &app.totals;
    let mut facts = match &app.shared_sockets {
        Some(sockets) => vec![fact("Shared sockets", sockets.clone()), evicted],
        None if app.runs_jobs => vec![evicted],
        None => vec![
            fact("Responses since start", figures::count(totals.responses)),
            fact("of these 5xx", figures::count(totals.server_errors)),
            fact("Rejected", by_reason(&totals.rejections)),
            fact("No response", by_reason(&totals.failures)),
            evicted,
        ],
    };
    for (name, queues) in [
        ("Shedding requests for queue", &app.shedding),
        ("Not shedding, latency unknown of queue", &app.shed_unknown),
    ] {
        if !queues.is_empty() {
            let queues: Vec<_> = queues.iter().map(|queue| visible(queue)).collect();
            facts.push(fact(name, queues.join(", ")));
        }
    }
    if let Some(rolling) = &app.rolling {
        facts.push(fact("Latest rolling restart", visible(rolling).into_owned()));
    }
    if let Some(overridden) = &app.overridden {
        facts.push(fact("Overridden", visible(overridden).into_owned()));
    }
    facts
}

/// Formats counts by reason, with the names that settings and metrics have: `queue full (queue_max) 3`.
fn by_reason(counts: &[ReasonCount]) -> String {
    let non_zero = counts.iter().filter(|entry| entry.count > 0);
    let texts: Vec<String> = non_zero
        .map(|entry| {
            let (text, count) = (reason_text(entry.reason), figures::count(entry.count));
            format!("{text} ({}) {count}", entry.reason)
        })
        .collect();
    if texts.is_empty() { "0".to_owned() } else { texts.join(" · ") }
}

impl FrontWorkerRow {
    fn new(worker: &FrontWorker, minute: &AppActivity) -> Self {
        let address = worker.address.as_deref().unwrap_or("–");
        let pid = worker.pid.map_or_else(unknown, |pid| format!("pid {pid}"));
        let age = worker.age.map(|age| figures::whole_duration(age.as_secs_f64()));
        Self {
            number: worker.number,
            key: format!("{}-{}", worker.number.unwrap_or(0), worker.pid.unwrap_or(0)),
            name: worker
                .number
                .map_or_else(|| visible(address).into_owned(), |number| number.to_string()),
            is_wrong: matches!(
                worker.state.as_str(),
                "failed" | "evicting" | "unreachable" | "stuck"
            ),
            state: worker.state.clone(),
            process: age.map_or(pid.clone(), |age| format!("{pid}, for {age}")),
            requests: worker.requests,
            streams: worker.streams,
            oldest: length(worker.oldest_request),
            memory: worker.pss_bytes.map_or_else(unknown, figures::bytes),
            queue_time: length(minute.mean_wait(worker)),
            assigned: worker.assigned,
            restarts: match worker.number {
                Some(_) => figures::count(worker.restarts),
                None => unknown(),
            },
            recycled: worker.recycled.as_deref().map(|reason| visible(reason).into_owned()),
            problem: worker.problem.as_deref().map(|problem| visible(problem).into_owned()),
        }
    }
}

fn length(length: Option<Duration>) -> String {
    length.map_or_else(unknown, |length| figures::duration(length.as_secs_f64()))
}

fn unknown() -> String {
    "–".to_owned()
}
