//! One queue of the Sidekiq that is observed: its figures, who serves it, what it is made of, its charts.

use std::borrow::Cow;
use std::sync::Arc;

use askama::Template;
use axum::Json;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use weir_advisor::observation::{
    Fact, JobProcess, Observation, ObservedQueue, SampleShare, SidekiqObservation,
};
use weir_advisor::{Drain, Forecast};

use super::super::chart;
use super::super::shell::Section;
use super::super::{PageError, html};
use super::doctor::empty_in;
use super::frame::{Chart, Charts, Page};
use super::postgres::Tile;
use super::{Wanted, age, latest, of, shown};
use crate::address::address;
use crate::console::Console;
use crate::figures;
use crate::guard::visitor::Visitor;
use crate::observed::queue_charts;

const CHARTS: [Chart; 4] = [
    Chart {
        series: "waiting:Waiting,in_hand:In hand",
        unit: "count",
        name: "Jobs of the queue",
        caption: "Jobs waiting and in hand",
    },
    Chart {
        series: "served_per_second:Worked off,arriving_per_second:Coming",
        unit: "rate",
        name: "Jobs of the queue per second",
        caption: "Jobs per second",
    },
    Chart {
        series: "latency_seconds:Oldest job",
        unit: "duration",
        name: "How long the oldest job of the queue has waited",
        caption: "How long the oldest has waited",
    },
    Chart {
        series: "drain_seconds:Until it is empty",
        unit: "duration",
        name: "How long until the queue is empty",
        caption: "Time until it is empty; none while it grows or stands",
    },
];

#[derive(Debug, Deserialize)]
pub(in crate::pages) struct Named {
    name: String,
    /// Where there are several.
    redis: Option<String>,
}

#[derive(Template)]
#[template(path = "observed_queue_live.html")]
struct LivePart {
    age: String,
    tiles: Vec<Tile>,
    is_paused: bool,
    findings: Vec<String>,
    servers: Vec<(String, u32, String)>,
    /// Of how many jobs, and what of them: job classes, hosts, errors.
    sample: Option<(u64, Vec<(&'static str, String)>)>,
}

/// `GET /observed/queue?name=..`, and `&redis=..` where there are several
pub(in crate::pages) async fn page(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    Query(named): Query<Named>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, PageError> {
    let live = LivePart::read(&console, &named)?;
    let Named { name, redis } = &named;
    let fields = [("name", name.as_str()), ("redis", redis.as_deref().unwrap_or_default())];
    let has_history = of(&console)?.queue_histories.of(&named.key()).is_some();
    let of_redis = redis.as_ref().map(|redis| format!(" of Redis {}", shown(redis)));
    let page = Page {
        section: Section::Doctor,
        title: format!("Queue {}{}", shown(name), of_redis.unwrap_or_default()),
        path: "/observed/queue",
        fields: &fields,
        charts: Charts {
            source: has_history.then(|| address("/observed/queue/chart", &fields)),
            each: &CHARTS,
            of_a_queue: true,
        },
    };
    page.show(&console, &visitor, &wanted, &live)
}

/// `GET /live/observed/queue?name=..`
pub(in crate::pages) async fn fragment(
    State(console): State<Arc<Console>>,
    Query(named): Query<Named>,
) -> Result<Response, PageError> {
    Ok(html(&LivePart::read(&console, &named)?))
}

/// `GET /observed/queue/chart?name=..&series=..&seconds=..`
pub(in crate::pages) async fn points(
    State(console): State<Arc<Console>>,
    Query(named): Query<Named>,
    wanted: Query<chart::Wanted>,
) -> Result<Json<chart::Chart>, PageError> {
    let history = of(&console)?.queue_histories.of(&named.key());
    let name = figures::shortened(&named.name, 100);
    let history =
        history.ok_or_else(|| PageError::NotFound(format!("queue {name:?} has no charts")))?;
    chart::read(&console, history, wanted.0).await.map(Json)
}

impl Named {
    /// Of its history.
    fn key(&self) -> Cow<'_, str> {
        queue_charts::key(self.redis.as_deref(), &self.name)
    }

    /// What was seen of the Sidekiq that it is of.
    fn jobs<'a>(&self, observation: &'a Observation) -> Result<&'a SidekiqObservation, PageError> {
        let of_redis = |shard: Option<&str>| shard == self.redis.as_deref();
        let mut all = observation.each_jobs();
        let Some((_, jobs)) = all.find(|(shard, _)| of_redis(*shard)) else {
            return Err(PageError::NotFound(match &self.redis {
                Some(redis) => {
                    let redis = figures::shortened(redis, 100);
                    format!("of several Redis servers none is called {redis:?}")
                }
                None => {
                    "there are several Redis servers: the page Doctor leads to the queues of each"
                        .to_owned()
                }
            }));
        };
        match jobs {
            Fact::Known(jobs) => Ok(jobs),
            Fact::Unknown(missing) => Err(PageError::NotFound(shown(&missing.reason))),
            Fact::NotAsked => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> PageError {
        let name = figures::shortened(&self.name, 100);
        PageError::NotFound(format!("Sidekiq has no queue {name:?}"))
    }
}

impl LivePart {
    fn read(console: &Console, named: &Named) -> Result<Self, PageError> {
        let looked = latest(console)?.ok_or_else(|| {
            PageError::NotFound("nothing was looked at yet: the first look is under way".to_owned())
        })?;
        let jobs = named.jobs(&looked.observation)?;
        let name = named.name.as_str();
        let queue = jobs.queue(name).ok_or_else(|| named.unknown())?;
        let subject = format!("queue {name}");
        let findings = looked.advice.findings.iter();
        let findings = findings.filter(|it| it.shard == named.redis && it.is_about(&subject));
        Ok(Self {
            age: age(console, &looked),
            tiles: tiles(jobs, queue),
            is_paused: queue.paused,
            findings: findings.map(|it| shown(&it.evidence)).collect(),
            servers: jobs.serving_queue(name).map(|process| server(process, name)).collect(),
            sample: queue.sample.known().map(|sample| {
                let parts = [
                    ("Job classes", &sample.classes),
                    ("Remote hosts", &sample.hosts),
                    ("Errors", &sample.errors),
                ];
                let parts = parts.into_iter().filter(|(_, shares)| !shares.is_empty());
                (sample.size, parts.map(|(what, all)| (what, shares(all))).collect())
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
        tile("Come", rate(flow.map(|it| it.arrivals_per_second)), false),
        tile("Worked off", rate(flow.map(|it| it.served_per_second())), false),
        tile("Empty in", empty_in(queue, &forecast).unwrap_or_else(unknown), grows),
        tile("In hand", figures::count(queue.in_hand), false),
        tile("Served by", figures::number(served_by), served_by == 0 && queue.length > 0),
    ]
}

/// Its name, its threads, and the queues that it looks at before this one.
fn server(process: &JobProcess, name: &str) -> (String, u32, String) {
    let before: Vec<&str> = process.served().take_while(|served| *served != name).collect();
    let before = if before.is_empty() { "–".to_owned() } else { before.join(", ") };
    (shown(&process.identity), process.concurrency(), shown(&before))
}

fn shares(shares: &[SampleShare]) -> String {
    let share =
        |share: &SampleShare| format!("{} ({})", shown(&share.name), figures::count(share.count));
    shares.iter().map(share).collect::<Vec<_>>().join(", ")
}
