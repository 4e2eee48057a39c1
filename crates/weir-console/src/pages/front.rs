//! The front: each app's queue, what its workers do, and what can be done about it.

mod act;

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Json;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_front::view::ReasonCount;

pub(crate) use self::act::act;
use super::chart::{self, Chart};
use super::ranges::{self, Range};
use super::shell::{Section, Shell};
use super::theme::Theme;
use super::{PageError, html};
use crate::console::Console;
use crate::figures;
use crate::front::{App, CHARTED_APPS_MAX, Front, Lately, Reading, Worker, column};
use crate::guard::visitor::Visitor;
use crate::live::Latest;
use crate::verdict::Finding;
use crate::visible::visible;

/// Where the charts of the front come from.
const CHART_SOURCE: &str = "/front/chart";

#[derive(Template)]
#[template(path = "front.html")]
struct FrontPage {
    shell: Shell,
    live: LivePart,
    done: Option<String>,
    /// Those whose workers Weir runs.
    scaled: Vec<Scaled>,
    charts: Vec<Charts>,
    charted_max: Option<usize>,
    ranges: Vec<Range>,
    range_seconds: u64,
    chart_source: &'static str,
}

/// How many workers an app is to have.
struct Scaled {
    name: String,
    processes: u32,
}

/// The series of one app.
struct Charts {
    app: String,
    rates: String,
    waiting: String,
    lengths: String,
}

#[derive(Template)]
#[template(path = "front_live.html")]
struct LivePart {
    findings: Vec<Finding>,
    apps: Vec<AppPart>,
    csrf: String,
}

struct AppPart {
    app: App,
    wait: Quantiles,
    answer: Quantiles,
    requests: String,
    /// None: nothing was given to anybody.
    jain_index: String,
    refused: u64,
    evictions: u64,
    /// Since the start.
    facts: Vec<Fact>,
    rows: Vec<Row>,
}

/// What half of all and all but a hundredth don't exceed.
struct Quantiles {
    p50: String,
    p99: String,
}

struct Fact {
    name: &'static str,
    value: String,
}

struct Row {
    /// For the form; None: Weir does not run it.
    number: Option<u32>,
    /// Tells its buttons from those of a successor in its place.
    key: String,
    name: String,
    state: String,
    is_wrong: bool,
    process: String,
    requests: u32,
    streams: u32,
    oldest: String,
    memory: String,
    wait: String,
    given: u64,
    restarts: String,
    recycled: Option<String>,
    problem: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    range: Option<String>,
    done: Option<String>,
}

/// The apps, if they are served here.
fn of(console: &Console) -> Result<&Front, PageError> {
    let none = "apps are not served by this Weir: it was started with --only, without front";
    console.deps.front.as_ref().ok_or_else(|| PageError::NotFound(none.to_owned()))
}

/// `GET /front`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let live = LivePart::read(&console, &visitor)?;
    let front = of(&console)?;
    let word = wanted.range.unwrap_or_default();
    let ranges = ranges::all(&ranges::WHOLE, &word, |word| format!("/front?range={word}"));
    let apps = || live.apps.iter().map(|part| &part.app);
    let scaled = |app: &App| Some(Scaled { name: app.name.clone(), processes: app.processes? });
    let charted = apps().filter(|app| front.is_charted(&app.name));
    Ok(html(&FrontPage {
        shell: Shell::new(&console, &visitor, Section::Front, "Front").refreshed(),
        done: wanted.done.as_deref().and_then(act::sentence).map(str::to_owned),
        scaled: apps().filter_map(scaled).collect(),
        charts: charted.map(|app| Charts::of(&app.name)).collect(),
        charted_max: (live.apps.len() > CHARTED_APPS_MAX).then_some(CHARTED_APPS_MAX),
        range_seconds: ranges::chosen_seconds(&ranges),
        ranges,
        chart_source: CHART_SOURCE,
        live,
    }))
}

/// `GET /live/front`
pub(crate) async fn fragment(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    Ok(html(&LivePart::read(&console, &visitor)?))
}

/// `GET /front/chart?series=shop.waiting&seconds=..`
pub(crate) async fn points(
    State(console): State<Arc<Console>>,
    wanted: Query<chart::Wanted>,
) -> Result<Json<Chart>, PageError> {
    let none = || PageError::NotFound("there is no app, so there is nothing to draw".to_owned());
    let history = of(&console)?.history.clone().ok_or_else(none)?;
    chart::read(&console, history, wanted.0).await.map(Json)
}

impl Charts {
    fn of(app: &str) -> Self {
        let series = |names: &[(&str, &str)]| {
            let series = names.iter().map(|(name, shown)| format!("{}:{shown}", column(app, name)));
            series.collect::<Vec<String>>().join(",")
        };
        Self {
            app: app.to_owned(),
            rates: series(&[
                ("requests_per_second", "Answered"),
                ("refused_per_second", "Refused"),
            ]),
            waiting: series(&[("waiting", "Waiting")]),
            lengths: series(&[
                ("queue_seconds_p99", "Wait p99"),
                ("answer_seconds_p50", "Answer p50"),
                ("answer_seconds_p99", "Answer p99"),
            ]),
        }
    }
}

impl LivePart {
    fn read(console: &Console, visitor: &Visitor) -> Result<Self, PageError> {
        let front = of(console)?;
        let latest = match console.deps.live.latest() {
            Latest::Reading(reading) => Some(reading),
            Latest::Nothing | Latest::Down(_) | Latest::Ended => None,
        };
        let reading = front.read(latest.as_ref().and_then(|it| it.front.as_ref()));
        let findings = latest.iter().flat_map(|it| &it.verdict.findings);
        Ok(Self {
            findings: findings.filter(|it| it.link == "/front").cloned().collect(),
            apps: reading.apps.iter().map(|app| AppPart::of(app, &reading)).collect(),
            csrf: visitor.csrf.clone(),
        })
    }
}

impl AppPart {
    fn of(app: &App, reading: &Reading) -> Self {
        let minute = reading.minute(app);
        Self {
            wait: Quantiles::of(&minute.waits),
            answer: Quantiles::of(&minute.answers),
            requests: figures::rate(minute.requests_per_second),
            jain_index: minute.jain_index.map_or_else(unknown, |index| format!("{index:.2}")),
            refused: minute.refused,
            evictions: minute.evictions,
            facts: facts(app),
            rows: app.workers.iter().map(|worker| Row::of(worker, &minute)).collect(),
            app: app.clone(),
        }
    }
}

impl Quantiles {
    fn of(distribution: &weir_front::Distribution) -> Self {
        let shown = |quantile| length(distribution.quantile(quantile));
        Self { p50: shown(0.5), p99: shown(0.99) }
    }
}

fn facts(app: &App) -> Vec<Fact> {
    let fact = |name, value| Fact { name, value };
    let evicted = fact("Evicted", figures::count(app.evictions));
    let totals = &app.totals;
    let mut facts = match &app.shared_sockets {
        Some(sockets) => vec![fact("Sockets of its workers", sockets.clone()), evicted],
        None if app.runs_jobs => vec![evicted],
        None => vec![
            fact("Answered since start", figures::count(totals.answers)),
            fact("of these 5xx", figures::count(totals.server_errors)),
            fact("Refused", by_reason(&totals.refusals)),
            fact("No answer", by_reason(&totals.failures)),
            evicted,
        ],
    };
    if !app.shedding.is_empty() {
        let queues: Vec<_> = app.shedding.iter().map(|queue| visible(queue)).collect();
        facts.push(fact("Refusing some requests for queue", queues.join(", ")));
    }
    if let Some(rolling) = &app.rolling {
        facts.push(fact("Latest rolling restart", visible(rolling).into_owned()));
    }
    facts
}

/// `queue_max 3 · overload 1`
fn by_reason(counts: &[ReasonCount]) -> String {
    let met = counts.iter().filter(|it| it.count > 0);
    let texts: Vec<String> =
        met.map(|it| format!("{} {}", it.reason, figures::count(it.count))).collect();
    if texts.is_empty() { "0".to_owned() } else { texts.join(" · ") }
}

impl Row {
    fn of(worker: &Worker, minute: &Lately) -> Self {
        let address = worker.address.as_deref().unwrap_or("–");
        let pid = worker.pid.map_or_else(unknown, |pid| format!("pid {pid}"));
        let age = worker.age.map(|age| figures::whole_duration(age.as_secs_f64()));
        Self {
            number: worker.number,
            key: format!("{}-{}", worker.number.unwrap_or(0), worker.pid.unwrap_or(0)),
            name: worker.number.map_or_else(|| visible(address).into_owned(), |it| it.to_string()),
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
            wait: length(minute.mean_wait(worker)),
            given: worker.given,
            restarts: match worker.number {
                Some(_) => figures::count(worker.restarts),
                None => unknown(),
            },
            recycled: worker.recycled.as_deref().map(|why| visible(why).into_owned()),
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
