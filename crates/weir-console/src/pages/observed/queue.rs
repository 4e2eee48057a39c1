//! One queue of an observed Sidekiq: its figures, processes, a sample of its jobs, its charts.

use askama::Template;
use serde::Deserialize;
use std::borrow::Cow;
use weir_advisor::observation::{
    Fact, JobProcess, Observation, ObservedQueue, SampleShare, SidekiqObservation,
};
use weir_advisor::{Drain, Forecast};

use super::super::chart;
use super::super::frame::Section;
use super::super::request::{PageRequest, PageResult};
use super::charted::{ChartFigure, ChartedPage, PageCharts};
use super::doctor::time_to_drain;
use super::postgres::Tile;
use super::{age, displayable, latest};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::observed::queue_charts;
use crate::page_error::PageError;

const CHARTS: [ChartFigure; 4] = [
    ChartFigure {
        series: "waiting:Waiting,in_hand:In progress",
        unit: "count",
        name: "Jobs of the queue",
        caption: "Jobs waiting and in progress",
    },
    ChartFigure {
        series: "served_per_second:Completed,arriving_per_second:Arriving",
        unit: "rate",
        name: "Jobs of the queue per second",
        caption: "Jobs per second",
    },
    ChartFigure {
        series: "latency_seconds:Latency",
        unit: "duration",
        name: "Latency of the queue",
        caption: "Latency: the age of the oldest job",
    },
    ChartFigure {
        series: "drain_seconds:Time to drain",
        unit: "duration",
        name: "Time to drain the queue",
        caption: "Time to drain; none while the queue does not shrink",
    },
];

#[derive(Debug, Deserialize)]
pub(in crate::pages) struct ObservedQueueQuery {
    name: String,
    /// The Redis, if there are several.
    redis: Option<String>,
}

#[derive(Template)]
#[template(path = "observed_queue_live.html")]
struct ObservedQueueLive {
    age: String,
    tiles: Vec<Tile>,
    is_paused: bool,
    findings: Vec<String>,
    servers: Vec<(String, u32, String)>,
    /// The number of sampled jobs, and their job classes, hosts and errors.
    sample: Option<(u64, Vec<(&'static str, String)>)>,
}

/// `GET /observed/queue?name=..`, and `&redis=..` where there are several
pub(in crate::pages) async fn page(request: PageRequest) -> PageResult {
    let query: ObservedQueueQuery = request.query()?;
    let console = &request.console;
    let live = ObservedQueueLive::read(console, &query)?;
    let ObservedQueueQuery { name, redis } = &query;
    let fields = [("name", name.as_str()), ("redis", redis.as_deref().unwrap_or_default())];
    let has_history = console.observed()?.queue_histories.get(&query.key()).is_some();
    let of_redis = redis.as_ref().map(|redis| format!(" of Redis {}", displayable(redis)));
    let page = ChartedPage {
        section: Section::Doctor,
        title: format!("Queue {}{}", displayable(name), of_redis.unwrap_or_default()),
        path: "/observed/queue",
        fields: &fields,
        charts: PageCharts {
            source: has_history.then(|| address("/observed/queue/chart", &fields)),
            each: &CHARTS,
            of_a_queue: true,
        },
    };
    page.response(&request, live.render())
}

/// `GET /observed/queue/chart?name=..&series=..&seconds=..`
pub(in crate::pages) async fn points(request: PageRequest) -> PageResult {
    let query: ObservedQueueQuery = request.query()?;
    let history = request.console.observed()?.queue_histories.get(&query.key());
    let history = history.ok_or_else(|| {
        let name = figures::shortened(&query.name, 100);
        PageError::NotFound(format!("queue {name:?} has no charts"))
    })?;
    chart::read(&request, history).await
}

impl ObservedQueueQuery {
    /// Returns the key of its history.
    fn key(&self) -> Cow<'_, str> {
        queue_charts::key(self.redis.as_deref(), &self.name)
    }

    /// Returns the Sidekiq that has the queue.
    fn jobs<'a>(&self, observation: &'a Observation) -> Result<&'a SidekiqObservation, PageError> {
        let of_redis = |shard: Option<&str>| shard == self.redis.as_deref();
        let mut all = observation.each_jobs();
        let Some((_, jobs)) = all.find(|(shard, _)| of_redis(*shard)) else {
            return Err(PageError::NotFound(match &self.redis {
                Some(redis) => {
                    let redis = figures::shortened(redis, 100);
                    format!("there is no Redis server {redis:?}")
                }
                None => "there are several Redis servers; the page Doctor lists the queues of each"
                    .to_owned(),
            }));
        };
        match jobs {
            Fact::Known(jobs) => Ok(jobs),
            Fact::Unknown(missing) => Err(PageError::NotFound(displayable(&missing.reason))),
            Fact::NotAsked => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> PageError {
        let name = figures::shortened(&self.name, 100);
        PageError::NotFound(format!("Sidekiq has no queue {name:?}"))
    }
}

impl ObservedQueueLive {
    fn read(console: &Console, query: &ObservedQueueQuery) -> Result<Self, PageError> {
        let snapshot = latest(console)?.ok_or_else(|| {
            PageError::NotFound(
                "there is no snapshot yet: the sources are being polled for the first time"
                    .to_owned(),
            )
        })?;
        let jobs = query.jobs(&snapshot.observation)?;
        let name = query.name.as_str();
        let queue = jobs.queue(name).ok_or_else(|| query.unknown())?;
        let subject = format!("queue {name}");
        let findings = snapshot.advice.findings.iter();
        let findings =
            findings.filter(|finding| finding.shard == query.redis && finding.is_about(&subject));
        Ok(Self {
            age: age(console, &snapshot),
            tiles: tiles(jobs, queue),
            is_paused: queue.paused,
            findings: findings.map(|finding| displayable(&finding.evidence)).collect(),
            servers: jobs.serving_queue(name).map(|process| server(process, name)).collect(),
            sample: queue.sample.known().map(|sample| {
                let parts = [
                    ("Job classes", &sample.classes),
                    ("Remote hosts", &sample.hosts),
                    ("Errors", &sample.errors),
                ];
                let parts = parts.into_iter().filter(|(_, shares)| !shares.is_empty());
                (sample.size, parts.map(|(label, all)| (label, shares(all))).collect())
            }),
        })
    }
}

fn tiles(jobs: &SidekiqObservation, queue: &ObservedQueue) -> Vec<Tile> {
    let unknown = || "–".to_owned();
    let (forecast, flow) = (Forecast::of(jobs), queue.paced());
    let served_by = jobs.serving_queue(&queue.name).count();
    let oldest = figures::duration(queue.latency.as_secs_f64());
    let rate = |rate: Option<f64>| rate.map_or_else(unknown, figures::rate);
    let grows = forecast.queue(&queue.name) == Some(Drain::Grows);
    let tile = |name, value, is_bad| Tile { name, value, is_bad };
    vec![
        tile("Waiting", figures::count(queue.length), false),
        tile("Oldest", if queue.length == 0 { unknown() } else { oldest }, false),
        tile("Arriving", rate(flow.map(|flow| flow.arrivals_per_second)), false),
        tile("Completed", rate(flow.map(|flow| jobs.completed_per_second(flow))), false),
        tile("Time to drain", time_to_drain(queue, &forecast).unwrap_or_else(unknown), grows),
        tile("In progress", figures::count(queue.in_hand), false),
        tile("Processes", figures::number(served_by), served_by == 0 && queue.length > 0),
    ]
}

/// Returns the process's name, its threads, and the queues that it fetches before this one.
fn server(process: &JobProcess, name: &str) -> (String, u32, String) {
    let before: Vec<&str> = process.served().take_while(|served| *served != name).collect();
    let before = if before.is_empty() { "–".to_owned() } else { before.join(", ") };
    (displayable(&process.identity), process.concurrency(), displayable(&before))
}

fn shares(shares: &[SampleShare]) -> String {
    let share = |share: &SampleShare| {
        format!("{} ({})", displayable(&share.name), figures::count(share.count))
    };
    shares.iter().map(share).collect::<Vec<_>>().join(", ")
}
