//! Reads the job server once per interval, for everybody: the history, the live streams, the
//! verdict. However many people watch, the job server is asked once.

mod tally;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use weir_base::clock::{Clock, Timestamp};
use weir_base::history::{Condition, History, Query};
use weir_base::shutdown::Shutdown;
use weir_jobs::handle::{Handle, HandleError};
use weir_jobs::view;

use self::tally::Tally;
use crate::Deps;
use crate::live::{Latest, Live, Rates, Reading};
use crate::queue_histories::QueueHistories;
use crate::realtime::{self, Realtime};
use crate::verdict::{Facts, Trend, judge};

/// The series of the console's history: open it with these.
pub const COLUMNS: [&str; 16] = [
    "pushed_per_second",
    "processed_per_second",
    "failed_per_second",
    "enqueued",
    "working",
    "scheduled",
    "retries",
    "dead",
    "queues",
    "workers",
    "connections",
    "fetches_waiting",
    "latency_seconds_max",
    "log_bytes",
    "sync_seconds_p50",
    "sync_seconds_p99",
];

/// While nobody watches, queues and workers are read once in so many readings: two rows for each
/// point of a queue's chart, so that a busy machine leaves no gap, and cheap with ten thousand
/// queues.
const READINGS_PER_DETAIL: u64 = 5;

/// The reader. One per console.
#[derive(Debug)]
pub struct Sampler {
    handle: Handle,
    history: Arc<History>,
    queue_histories: Arc<QueueHistories>,
    live: Live,
    clock: Clock,
    interval: Duration,
    jobs_limits: weir_jobs::settings::Limits,
    jobs_url: String,
    tally: Tally,
    realtime: Option<Realtime>,
    realtime_tally: realtime::Tally,
    readings: u64,
    queues: Arc<Vec<view::Queue>>,
    workers: Arc<Vec<view::Worker>>,
}

impl Sampler {
    /// A reader for the console of `deps`.
    #[must_use]
    pub fn new(deps: &Deps) -> Self {
        Self {
            handle: deps.handle.clone(),
            history: Arc::clone(&deps.history),
            queue_histories: Arc::clone(&deps.queue_histories),
            live: deps.live.clone(),
            clock: deps.clock.clone(),
            interval: deps.settings.limits.sample_interval,
            jobs_limits: deps.jobs_limits.clone(),
            jobs_url: deps.jobs_url.clone(),
            tally: Tally::default(),
            realtime: deps.realtime.clone(),
            realtime_tally: realtime::Tally::default(),
            readings: 0,
            queues: Arc::default(),
            workers: Arc::default(),
        }
    }

    /// Reads until it is time to end; then all live streams end.
    pub async fn run(mut self, shutdown: Shutdown) {
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                () = shutdown.requested() => return self.live.publish(Latest::Ended),
                _ = ticks.tick() => {}
            }
            match self.read().await {
                Ok(reading) => self.live.publish(Latest::Reading(Arc::new(reading))),
                Err(error) => self.live.publish(Latest::Down(error.to_string().into())),
            }
        }
    }

    async fn read(&mut self) -> Result<Reading, HandleError> {
        let overview = self.handle.overview().await?;
        let in_detail = self.live.is_watched() || self.readings.is_multiple_of(READINGS_PER_DETAIL);
        if in_detail {
            self.queues = Arc::new(self.handle.queues().await?);
            self.workers = Arc::new(self.handle.workers().await?);
        }
        self.readings += 1;
        let at = self.clock.now();
        self.tally.add(at, &overview);
        let realtime = self
            .realtime
            .as_ref()
            .map(|realtime| realtime.sample(&mut self.realtime_tally, &self.clock));
        let retries_before = self.record(at, &overview, realtime.as_ref(), in_detail).await;
        let trend = Trend {
            retries_before,
            failed_per_second: self.tally.rates(tally::MINUTE).failed,
            processed_per_second: self.tally.rates(tally::MINUTE).processed,
            limits_hit: self.tally.limits_hit(),
            history_problem: match self.history.condition() {
                Condition::OnDisk => None,
                Condition::InMemory(problem) => Some(problem),
            },
        };
        let verdict = judge(&Facts {
            overview: &overview,
            queues: &self.queues,
            workers: &self.workers,
            trend: &trend,
            limits: &self.jobs_limits,
            jobs_url: &self.jobs_url,
            realtime: realtime.as_ref(),
        });
        Ok(Reading {
            at,
            overview,
            queues: Arc::clone(&self.queues),
            workers: Arc::clone(&self.workers),
            rates: self.tally.rates(tally::MOMENT),
            trend,
            verdict,
            realtime,
        })
    }

    /// Writes one row, and `in_detail` one for each queue, and reads how many retries there were
    /// ten minutes ago; on a thread that may wait for the disk.
    async fn record(
        &self,
        at: Timestamp,
        overview: &view::Overview,
        realtime: Option<&realtime::Reading>,
        in_detail: bool,
    ) -> Option<f64> {
        let row = row(overview, self.tally.rates(self.interval));
        let history = Arc::clone(&self.history);
        let queue_histories = Arc::clone(&self.queue_histories);
        let queues = in_detail.then(|| Arc::clone(&self.queues));
        let realtime = self.realtime.as_ref().zip(realtime.map(realtime::row));
        let realtime = realtime.map(|(realtime, row)| (Arc::clone(&realtime.history), row));
        let recorded = tokio::task::spawn_blocking(move || {
            history.append(at, &row);
            if let Some((history, row)) = realtime {
                history.append(at, &row);
            }
            if let Some(queues) = queues {
                queue_histories.record(at, &queues);
            }
            retries_before(&history, at)
        });
        recorded.await.unwrap_or_default()
    }
}

/// The values of [`COLUMNS`].
fn row(overview: &view::Overview, rates: Rates) -> [f64; COLUMNS.len()] {
    let number = crate::figures::as_float;
    [
        rates.pushed,
        rates.processed,
        rates.failed,
        number(overview.enqueued),
        number(overview.working),
        number(overview.scheduled),
        number(overview.retries),
        number(overview.dead),
        number(overview.queues),
        number(overview.workers),
        number(overview.connections),
        number(overview.fetches_waiting),
        overview.latency_seconds_max,
        number(overview.log.bytes),
        overview.log.sync_seconds_p50,
        overview.log.sync_seconds_p99,
    ]
}

/// The retry set's mean size in the minute that began ten minutes ago.
fn retries_before(history: &History, now: Timestamp) -> Option<f64> {
    let from = now - Duration::from_secs(600);
    let to = now - Duration::from_secs(540);
    let query = Query { series: &["retries"], from, to, points_max: 1 };
    let table = history.query(&query);
    table.columns.first()?.first()?.map(|band| band.mean)
}
