//! The first page: one line that says how it is, then the figures behind it.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_jobs::view;

use super::ranges::{self, Range};
use super::shell::{Section, Shell};
use super::theme::Theme;
use super::{PageError, html, queues, reading};
use crate::console::Console;
use crate::fetchers::Fetchers;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::jobs;
use crate::live::Reading;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    shell: Shell,
    live: LivePart<'a>,
    ranges: Vec<Range>,
    range_seconds: u64,
    /// None: no jobs are served here.
    jobs_url: Option<&'a str>,
    is_new: bool,
}

/// What the script reads again.
#[derive(Template)]
#[template(path = "overview_live.html")]
struct LivePart<'a> {
    reading: &'a Reading,
    jobs: Option<JobsPart<'a>>,
}

/// What it says of jobs.
struct JobsPart<'a> {
    reading: &'a jobs::Reading,
    facts: Vec<Fact>,
    /// The deepest queues.
    queues: Vec<queues::Row<'a>>,
    more_queues: usize,
}

/// A line of the list of facts.
struct Fact {
    name: &'static str,
    value: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    range: Option<String>,
}

/// `GET /`
pub(crate) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let reading = reading::fresh(&console).await?;
    let wanted = wanted.range.unwrap_or_default();
    let ranges = ranges::all(&ranges::WHOLE, &wanted, |word| format!("/?range={word}"));
    Ok(html(&OverviewPage {
        shell: Shell::new(&console, &visitor, Section::Overview, "Overview").refreshed(),
        is_new: reading.jobs.as_ref().is_some_and(|jobs| is_new(&jobs.overview)),
        live: LivePart::of(&reading),
        range_seconds: ranges::chosen_seconds(&ranges),
        ranges,
        jobs_url: console.deps.jobs.as_ref().map(|jobs| &*jobs.url),
    }))
}

/// `GET /live/overview`
pub(crate) async fn fragment(State(console): State<Arc<Console>>) -> Result<Response, PageError> {
    let reading = reading::shared(&console).await?;
    Ok(html(&LivePart::of(&reading)))
}

/// Queues on the first page; all are behind a link.
const QUEUES_SHOWN: usize = 5;

/// Whether it never had a job.
fn is_new(overview: &view::JobServerOverview) -> bool {
    overview.pushed_total == 0 && overview.queues == 0
}

impl<'a> LivePart<'a> {
    fn of(reading: &'a Reading) -> Self {
        Self { reading, jobs: reading.jobs.as_ref().map(JobsPart::of) }
    }
}

impl<'a> JobsPart<'a> {
    fn of(reading: &'a jobs::Reading) -> Self {
        let mut deepest: Vec<&view::QueueView> = reading.queues.iter().collect();
        deepest.sort_by(|one, other| {
            other.depth.cmp(&one.depth).then_with(|| one.name.cmp(&other.name))
        });
        let fetchers = Fetchers::of(&reading.workers);
        let shown = deepest.into_iter().take(QUEUES_SHOWN);
        let queues: Vec<_> = shown.map(|queue| queues::Row::new(queue, &fetchers)).collect();
        Self {
            reading,
            facts: facts(reading),
            more_queues: reading.queues.len() - queues.len(),
            queues,
        }
    }
}

fn facts(reading: &jobs::Reading) -> Vec<Fact> {
    let overview = &reading.overview;
    let log = &overview.log;
    let fact = |name, value| Fact { name, value };
    let mut facts = vec![
        fact("Store", format!("{} · fsync {}", overview.store, overview.fsync)),
        fact("Uptime", figures::whole_duration(overview.uptime_seconds)),
        fact("Connections", figures::count(overview.connections)),
        fact("Fetches waiting", figures::count(overview.fetches_waiting)),
    ];
    if log.segments > 0 {
        let size = figures::bytes(log.bytes);
        facts.push(fact("Log", format!("{size} in {}", figures::counted(log.segments, "segment"))));
        let (p50, p99) = (log.sync_seconds_p50, log.sync_seconds_p99);
        let sync = format!("p50 {} · p99 {}", figures::duration(p50), figures::duration(p99));
        facts.push(fact("Sync", sync));
    }
    facts.push(fact("Pushed since start", figures::count(overview.pushed_total)));
    facts.push(fact("Done since start", figures::count(overview.processed_total)));
    facts.push(fact("Failed since start", figures::count(overview.failed_total)));
    facts
}
