//! The latest snapshot, shared by all pages and streams.
//!
//! One sampler writes it. A stream (`/events`) always sends the newest snapshot and skips those
//! that it was too slow for, so a slow reader costs nothing. Streams are limited in number and age.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use weir_advisor::{Severity, Verdict, VerdictFinding};
use weir_base::clock::{Clock, Timestamp};

use crate::front;
use crate::jobs::{self, JobsSource};
use crate::metrics::{ConsoleLimit, ConsoleMetrics};
use crate::observed;
use crate::page_error::PageError;
use crate::realtime;
use crate::settings::ConsoleLimits;
use crate::verdict::{self, JobFacts, VerdictInput, evaluate};

/// Holds the latest snapshot. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub struct Live {
    latest: Arc<watch::Sender<Latest>>,
    streams: Arc<Semaphore>,
    streams_max: usize,
    metrics: ConsoleMetrics,
}

/// The latest state of the served parts.
#[derive(Clone, Debug)]
pub(crate) enum Latest {
    /// There is no snapshot yet.
    Nothing,
    Snapshot(Arc<ConsoleSnapshot>),
    /// The job server did not reply; the text says why.
    Down(Arc<str>),
    /// The console is shutting down, and all streams end.
    Ended,
}

/// The served parts at one moment.
#[derive(Clone, Debug)]
pub(crate) struct ConsoleSnapshot {
    pub(crate) at: Timestamp,
    /// None: not served here; [`ConsoleSnapshot::jobs`] returns the error.
    pub(crate) jobs: Option<jobs::JobsSnapshot>,
    /// None: not served here.
    pub(crate) realtime: Option<realtime::RealtimeSnapshot>,
    /// None: not served here.
    pub(crate) front: Option<front::FrontSnapshot>,
    /// None: nothing is observed.
    pub(crate) observed: Option<observed::ObservedSample>,
    pub(crate) verdict: Verdict,
}

/// The snapshots of the parts.
#[derive(Debug, Default)]
pub(crate) struct Served {
    pub(crate) jobs: Option<jobs::JobsSnapshot>,
    pub(crate) realtime: Option<realtime::RealtimeSnapshot>,
    pub(crate) front: Option<front::FrontSnapshot>,
    pub(crate) observed: Option<observed::ObservedSample>,
}

/// The message of a stream each second, as JSON.
#[derive(Serialize)]
struct Tick<'a> {
    now: f64,
    #[serde(flatten)]
    jobs: Option<JobsTick>,
    verdict: TickVerdict<'a>,
    /// Connections of realtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections: Option<u64>,
    /// Requests that wait for a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    front_waiting: Option<usize>,
    /// The number of doctor's findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    doctor_findings: Option<u64>,
}

#[derive(Serialize)]
struct JobsTick {
    pushed_per_second: f64,
    processed_per_second: f64,
    failed_per_second: f64,
    enqueued: u64,
    working: u64,
    scheduled: u64,
    retries: u64,
    dead: u64,
    queues: u64,
    workers: u64,
    latency_seconds_max: f64,
}

#[derive(Serialize)]
struct TickVerdict<'a> {
    class: &'a str,
    word: &'a str,
    headline: &'a str,
    criticals: usize,
}

impl Live {
    /// Creates the state without a snapshot; at most `limits.streams_max` streams.
    #[must_use]
    pub fn new(limits: &ConsoleLimits) -> Self {
        Self {
            latest: Arc::new(watch::Sender::new(Latest::Nothing)),
            streams: Arc::new(Semaphore::new(limits.streams_max)),
            streams_max: limits.streams_max,
            metrics: ConsoleMetrics::default(),
        }
    }

    /// Returns the console's metrics, to be registered where metrics are served.
    #[must_use]
    pub const fn metrics(&self) -> &ConsoleMetrics {
        &self.metrics
    }

    pub(crate) fn publish(&self, latest: Latest) {
        self.latest.send_replace(latest);
    }

    /// Returns a stream of all changes, including the end.
    pub(crate) fn watch(&self) -> WatchStream<Latest> {
        WatchStream::new(self.latest.subscribe())
    }

    pub(crate) fn latest(&self) -> Latest {
        self.latest.borrow().clone()
    }

    /// Returns the latest verdict. None: nothing was sampled yet.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        match &*self.latest.borrow() {
            Latest::Snapshot(reading) => Some(reading.verdict.clone()),
            Latest::Down(problem) => Some(verdict::of_unresponsive_jobs(problem)),
            Latest::Nothing | Latest::Ended => None,
        }
    }

    /// Returns whether a stream is open.
    pub(crate) fn is_watched(&self) -> bool {
        self.streams.available_permits() < self.streams_max
    }

    /// Returns a permit for another stream; None: `streams_max` are open.
    pub(crate) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok();
        if permit.is_none() {
            self.metrics.limit_hit(ConsoleLimit::StreamsMax);
        }
        permit
    }
}

/// The age after which a stream ends and the browser opens another, so that a forgotten tab whose
/// session has ended gets no further data.
pub(crate) const STREAM_AGE_MAX: Duration = Duration::from_secs(600);
/// A silent stream sends a comment this often, so that a dead connection is noticed.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Returns the stream of one browser, which holds `permit`.
pub(crate) fn stream(
    live: &Live,
    clock: &Clock,
    permit: OwnedSemaphorePermit,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + use<>> {
    let clock = clock.clone();
    let ends_at = clock.now() + STREAM_AGE_MAX;
    let events = live
        .watch()
        .take_while(move |latest| clock.now() < ends_at && !matches!(latest, Latest::Ended))
        .filter_map(move |latest| {
            let _held_as_long_as_the_stream = &permit;
            event(&latest).map(Ok)
        });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

fn event(latest: &Latest) -> Option<Event> {
    match latest {
        Latest::Nothing | Latest::Ended => None,
        Latest::Snapshot(reading) => Event::default().event("tick").json_data(reading.tick()).ok(),
        Latest::Down(problem) => Event::default().event("down").json_data(problem.as_ref()).ok(),
    }
}

impl ConsoleSnapshot {
    /// Creates the snapshot; `served` is the source of jobs, if they are served.
    pub(crate) fn new(at: Timestamp, served: Option<&JobsSource>, parts: Served) -> Self {
        let Served { jobs, realtime, front, observed } = parts;
        let facts = served.zip(jobs.as_ref()).map(|(served, jobs)| JobFacts::new(served, jobs));
        let verdict = evaluate(&VerdictInput {
            jobs: facts,
            realtime: realtime.as_ref(),
            front: front.as_ref(),
            observed: observed.as_ref(),
        });
        Self { at, jobs, realtime, front, observed, verdict }
    }

    /// Returns the snapshot of jobs, or an error if they are not served.
    pub(crate) fn jobs(&self) -> Result<&jobs::JobsSnapshot, PageError> {
        self.jobs.as_ref().ok_or_else(PageError::no_jobs)
    }

    fn tick(&self) -> Tick<'_> {
        let realtime = self.realtime.as_ref().map(|reading| &reading.overview);
        let is_critical = |it: &&VerdictFinding| it.finding.severity == Severity::Critical;
        let (class, word) = verdict::style(self.verdict.severity);
        Tick {
            now: self.at.as_secs_f64(),
            jobs: self.jobs.as_ref().map(JobsTick::new),
            verdict: TickVerdict {
                class,
                word,
                headline: &self.verdict.headline,
                criticals: self.verdict.findings.iter().filter(is_critical).count(),
            },
            connections: realtime.map(|overview| overview.totals.connections),
            front_waiting: self.front.as_ref().map(front::FrontSnapshot::waiting),
            doctor_findings: self.observed.as_ref().and_then(observed::ObservedSample::findings),
        }
    }
}

impl JobsTick {
    fn new(reading: &jobs::JobsSnapshot) -> Self {
        let (overview, rates) = (&reading.overview, reading.rates);
        Self {
            pushed_per_second: rates.pushed,
            processed_per_second: rates.processed,
            failed_per_second: rates.failed,
            enqueued: overview.enqueued,
            working: overview.working,
            scheduled: overview.scheduled,
            retries: overview.retries,
            dead: overview.dead,
            queues: overview.queues,
            workers: overview.workers,
            latency_seconds_max: reading.highest_latency().1,
        }
    }
}
