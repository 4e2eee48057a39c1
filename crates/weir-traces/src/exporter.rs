//! Sends finished spans to the collector, in batches, from one task.
//!
//! One batch at a time is in flight. While the collector is unreachable or busy, that batch is sent
//! again a few times, and the queue fills; what the queue has no room for is dropped. So memory is
//! bounded by `queue_max` and `batch_max`, and nothing else waits.

mod collector;

use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};
use weir_base::backoff::Backoff;
use weir_base::clock::Clock;
use weir_base::shutdown::ShutdownToken;

use self::collector::{Collector, ExportError};
use crate::metrics::{DropReason, TraceMetrics};
use crate::settings::{TraceLimits, TraceSettings};
use crate::span::SpanRecord;
use crate::tracer::Tracer;

/// Delay after the first failed attempt; it doubles with every further one.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(500);
/// Limit of that delay, and of the one that a collector asks for.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);

/// The task that exports spans.
#[derive(Debug)]
pub struct Exporter {
    finished: Receiver<Box<SpanRecord>>,
    collector: Collector,
    limits: TraceLimits,
    metrics: TraceMetrics,
    backoff: Backoff,
    /// True while the collector takes nothing, so that only the first failure is logged.
    is_failing: bool,
}

/// Creates a tracer and its exporter. Returns a tracer that traces nothing, and no exporter, without an
/// endpoint.
#[must_use]
pub fn create(
    settings: &TraceSettings,
    clock: Clock,
    metrics: TraceMetrics,
) -> (Tracer, Option<Exporter>) {
    let Some(collector) = Collector::new(settings) else { return (Tracer::default(), None) };
    let (tracer, finished) = Tracer::new(settings, clock, metrics.clone());
    let exporter = Exporter {
        finished,
        collector,
        limits: settings.limits.clone(),
        metrics,
        backoff: Backoff::new(RETRY_DELAY_MIN, RETRY_DELAY_MAX, fastrand::Rng::new()),
        is_failing: false,
    };
    (tracer, Some(exporter))
}

impl Exporter {
    /// Exports spans until `stop`, and then those that are queued, within the time limit of one request.
    pub async fn run(mut self, stop: ShutdownToken) {
        while let Some(batch) = self.next_batch(&stop).await {
            self.export(batch, &stop).await;
        }
        self.finished.close();
        let mut unsent = self.finished.len() as u64;
        let _ = timeout(self.limits.timeout, self.export_queued(&mut unsent)).await;
        self.metrics.dropped(DropReason::Stopped, unsent);
    }

    /// Returns the next spans: as many as there are after `batch_interval`, or as fit. None: the end.
    async fn next_batch(&mut self, stop: &ShutdownToken) -> Option<Vec<Box<SpanRecord>>> {
        let first = tokio::select! {
            biased;
            () = stop.requested() => return None,
            first = self.finished.recv() => first?,
        };
        let mut batch = vec![first];
        let gathering = async {
            let max = self.limits.batch_max.max(1);
            while batch.len() < max {
                let room = max - batch.len();
                if self.finished.recv_many(&mut batch, room).await == 0 {
                    return;
                }
            }
        };
        tokio::select! {
            () = gathering => {}
            () = sleep(self.limits.batch_interval) => {}
            () = stop.requested() => {}
        }
        Some(batch)
    }

    /// Sends a batch, again if the collector may accept it later.
    #[expect(clippy::vec_box, reason = "spans come boxed from the queue")]
    async fn export(&mut self, batch: Vec<Box<SpanRecord>>, stop: &ShutdownToken) {
        let spans = batch.len() as u64;
        let request = self.collector.request(batch);
        self.backoff.reset();
        for attempt in 1..=self.limits.attempts_max {
            match self.collector.send(request.clone()).await {
                Ok(rejected) => return self.count_accepted(spans, rejected),
                Err(ExportError::Rejected(why)) => {
                    return self.drop_batch(spans, DropReason::Rejected, &why);
                }
                Err(ExportError::Unavailable { why, retry_after }) => {
                    let is_last = attempt == self.limits.attempts_max || stop.is_requested();
                    if is_last {
                        return self.drop_batch(spans, DropReason::Unavailable, &why);
                    }
                    self.count_failure(&why);
                    let delay = self.backoff.next_delay();
                    let delay = delay.max(retry_after.unwrap_or_default()).min(RETRY_DELAY_MAX);
                    tokio::select! {
                        () = sleep(delay) => {}
                        // One last attempt.
                        () = stop.requested() => {}
                    }
                }
            }
        }
    }

    /// Sends what is queued; each batch once, and nothing more after a failure. `unsent` is how many spans are
    /// left, also if the time is over before the end.
    async fn export_queued(&mut self, unsent: &mut u64) {
        let mut batch = Vec::new();
        while self.finished.recv_many(&mut batch, self.limits.batch_max.max(1)).await > 0 {
            let spans = batch.len() as u64;
            let request = self.collector.request(std::mem::take(&mut batch));
            match self.collector.send(request).await {
                Ok(rejected) => self.count_accepted(spans, rejected),
                Err(error) => return self.count_failure(error.why()),
            }
            *unsent = unsent.saturating_sub(spans);
        }
    }

    fn count_accepted(&mut self, spans: u64, rejected: u64) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("traces are exported again");
        }
        let rejected = rejected.min(spans);
        self.metrics.exported.inc_by(spans - rejected);
        self.metrics.dropped(DropReason::Rejected, rejected);
    }

    fn drop_batch(&mut self, spans: u64, reason: DropReason, why: &str) {
        self.count_failure(why);
        self.metrics.dropped(reason, spans);
    }

    fn count_failure(&mut self, why: &str) {
        self.metrics.failures.inc();
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                endpoint = %self.collector.endpoint(),
                error = why,
                "traces cannot be exported; check traces.endpoint and the collector"
            );
        }
    }
}
