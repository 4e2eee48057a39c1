//! The first page: the verdict in one line, then the figures behind it.

use askama::Template;
use weir_jobs::view;

use super::demo::DemoFlash;
use super::frame::{PageFrame, Section, html};
use super::live_page::LiveSection;
use super::named_value::NamedValue;
use super::queues::QueueTableRow;
use super::ranges::{self, ChartRange, RangeQuery};
use super::request::{PageRequest, PageResult};
use super::snapshot;
use crate::fetchers::Fetchers;
use crate::figures;
use crate::jobs::JobsSnapshot;
use crate::live::ConsoleSnapshot;
use crate::verdict;
use crate::visible::visible;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage<'a> {
    frame: PageFrame,
    live: LiveSection,
    ranges: Vec<ChartRange>,
    range_seconds: u64,
    /// None: no jobs are served here.
    jobs_url: Option<&'a str>,
    is_new: bool,
    /// A demo is connected: its flood can be started.
    has_demo: bool,
}

/// The live section.
#[derive(Template)]
#[template(path = "overview_live.html")]
struct OverviewLive<'a> {
    class: &'static str,
    label: &'static str,
    reading: &'a ConsoleSnapshot,
    jobs: Option<OverviewJobs<'a>>,
}

/// The section about jobs.
struct OverviewJobs<'a> {
    reading: &'a JobsSnapshot,
    /// The highest latency, and its queue.
    latency: String,
    latency_queue: Option<&'a str>,
    facts: Vec<NamedValue>,
    /// The deepest queues.
    queues: Vec<QueueTableRow<'a>>,
    more_queues: usize,
    /// The servers among which the jobs are divided, if there are several.
    shards: Vec<ShardRow<'a>>,
}

/// One of these servers.
struct ShardRow<'a> {
    shard: &'a view::ShardView,
    tag: &'static str,
    away_for: Option<String>,
    problem: Option<String>,
    in_sets: u64,
    memory: String,
}

impl<'a> ShardRow<'a> {
    fn new(shard: &'a view::ShardView, now: f64) -> Self {
        let problem = shard.problem.as_deref();
        Self {
            shard,
            tag: if shard.away_since.is_some() { "critical" } else { "muted" },
            away_for: shard.away_since.map(|since| figures::whole_duration(now - since)),
            problem: problem.map(|problem| visible(problem).into_owned()),
            in_sets: shard.scheduled + shard.retries + shard.dead,
            memory: figures::bytes(shard.memory_bytes),
        }
    }
}

/// `GET /`
pub(crate) async fn page(request: PageRequest) -> PageResult {
    let snapshot = snapshot::for_request(&request).await?;
    let flash: DemoFlash = request.query()?;
    let range = request.query::<RangeQuery>()?.range_name();
    let demo = request.console.deps.demo;
    request.live_response(OverviewLive::new(&snapshot).render(), &[], |live| {
        let ranges = ranges::all(&ranges::WHOLE, &range, |key| format!("/?range={key}"));
        Ok(html(&OverviewPage {
            frame: request
                .frame(Section::Overview, "Overview")
                .refreshed()
                .with_flash(flash.message()),
            has_demo: snapshot.jobs.as_ref().is_some_and(|jobs| demo.is_running(&jobs.workers)),
            is_new: snapshot.jobs.as_ref().is_some_and(|jobs| is_new(&jobs.overview)),
            live,
            range_seconds: ranges::chosen_seconds(&ranges),
            ranges,
            jobs_url: request.console.deps.jobs.as_ref().map(|jobs| &*jobs.url),
        }))
    })
}

/// Limit of queues on the first page; it links to the others.
const QUEUES_SHOWN: usize = 5;

/// Returns whether the server never had a job.
fn is_new(overview: &view::JobServerOverview) -> bool {
    overview.pushed_total == 0 && overview.queues == 0
}

impl<'a> OverviewLive<'a> {
    fn new(reading: &'a ConsoleSnapshot) -> Self {
        let (class, label) = verdict::style(reading.verdict.severity);
        Self { class, label, reading, jobs: reading.jobs.as_ref().map(OverviewJobs::new) }
    }
}

impl<'a> OverviewJobs<'a> {
    fn new(reading: &'a JobsSnapshot) -> Self {
        let mut deepest: Vec<&view::QueueView> = reading.queues.iter().collect();
        deepest.sort_by(|one, other| {
            other.depth.cmp(&one.depth).then_with(|| one.name.cmp(&other.name))
        });
        let fetchers = Fetchers::new(&reading.workers);
        let shown = deepest.into_iter().take(QUEUES_SHOWN);
        let queues: Vec<_> = shown.map(|queue| QueueTableRow::new(queue, &fetchers)).collect();
        let overview = &reading.overview;
        let shards = overview.log.shards.iter().map(|shard| ShardRow::new(shard, overview.now));
        let (latency_queue, latency_seconds) = reading.highest_latency();
        Self {
            reading,
            latency: figures::duration(latency_seconds),
            latency_queue,
            shards: shards.collect(),
            facts: facts(reading),
            more_queues: reading.queues.len() - queues.len(),
            queues,
        }
    }
}

fn facts(reading: &JobsSnapshot) -> Vec<NamedValue> {
    let overview = &reading.overview;
    let log = &overview.log;
    let fact = |name, value| NamedValue { name, value };
    let mut facts = vec![
        fact("Store", overview.store_text()),
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
    let malformed: u64 = overview.stores.iter().map(|shard| shard.malformed_total).sum();
    if malformed > 0 {
        facts.push(fact("Payloads that are no jobs", figures::count(malformed)));
    }
    facts.push(fact("Pushed since start", figures::count(overview.pushed_total)));
    facts.push(fact("Done since start", figures::count(overview.processed_total)));
    facts.push(fact("Failed since start", figures::count(overview.failed_total)));
    facts
}
