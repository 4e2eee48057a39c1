//! Counts the runs of this node by class, and writes them for Sidekiq's page of metrics, as
//! Sidekiq's processes do with each beat.

use std::rc::Rc;

use super::link_connection::LinkConnection;
use redis::Pipeline;
use weir_jobs::metrics::JobServerLimit;
use weir_jobs::store::StoreError;

use super::class_metrics::{ClassCounts, ClassMetrics, Recorded, RunOutcome};
use super::metrics_layout::{ClassMetricsLayout, MINUTE_KEPT, MinuteKeys};
use super::reservations::Reservation;
use super::store_core::StoreCore;

/// Classes that are written in one round trip.
const BATCH_CLASSES: usize = 100;

impl StoreCore {
    /// Counts a run of a job by its class, that of the wrapped job where there is one.
    pub(super) fn record_class(&self, job: &Reservation, outcome: RunOutcome) {
        if self.class_metrics_layout == ClassMetricsLayout::Off {
            return;
        }
        let max = self.limits.metrics_classes_max;
        let recorded = self.state.borrow_mut().class_metrics.record(&job.class, outcome, max);
        if recorded == Recorded::LeftOut {
            self.metrics.limit_hit(JobServerLimit::MetricsClassesMax);
        }
    }

    /// Returns the outcome of a job that ends now without a failure.
    pub(super) fn done_now(&self, job: &Reservation) -> RunOutcome {
        RunOutcome::Done(self.now().since(job.since))
    }

    /// Writes the runs that have ended since the last call.
    pub(super) async fn flush_class_metrics(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        if self.state.borrow().class_metrics.is_empty() {
            return Ok(());
        }
        let layouts = self.class_metrics_layouts(connection).await?;
        let keys = MinuteKeys::new(layouts, self.now());
        let mut pending = std::mem::take(&mut self.state.borrow_mut().class_metrics);
        while !pending.is_empty() {
            let batch = pending.take(BATCH_CLASSES);
            if let Err(error) = self.write_class_metrics(connection, &keys, &batch).await {
                // If the connection breaks here, some are counted with the next call as well:
                // rather twice than never.
                let mut state = self.state.borrow_mut();
                state.class_metrics.put_back(batch);
                state.class_metrics.put_back(pending);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn write_class_metrics(
        &self,
        connection: &mut LinkConnection,
        keys: &MinuteKeys,
        batch: &ClassMetrics,
    ) -> Result<(), StoreError> {
        let mut pipeline = Pipeline::new();
        // A key of another type spoils the figures of no other class.
        pipeline.ignore_errors();
        for (key, kept) in &keys.counts {
            let key = self.keys.class_metrics(key);
            for (class, counts) in batch.iter() {
                add_counts(&mut pipeline, &key, class, counts);
            }
            pipeline.cmd("EXPIRE").arg(&key).arg(kept.as_secs()).ignore();
        }
        for (class, counts) in batch.iter() {
            for key in keys.histograms(class) {
                add_histogram(&mut pipeline, &self.keys.class_metrics(&key), counts);
            }
        }
        if pipeline.is_empty() {
            return Ok(());
        }
        let written: Result<(), _> = pipeline.query_async(connection).await;
        written.map_err(|error| self.link.failed(&error))
    }
}

fn add_counts(pipeline: &mut Pipeline, key: &str, class: &str, counts: &ClassCounts) {
    let ClassCounts { processed, failed, milliseconds, .. } = *counts;
    // Sidekiq writes no time of a class that only failed, and no failures of one without.
    let has_time = processed > failed;
    let fields =
        [("p", processed, true), ("f", failed, failed > 0), ("ms", milliseconds, has_time)];
    for (name, more, _) in fields.into_iter().filter(|(.., is_written)| *is_written) {
        pipeline.cmd("HINCRBY").arg(key).arg(format!("{class}|{name}")).arg(more).ignore();
    }
}

fn add_histogram(pipeline: &mut Pipeline, key: &str, counts: &ClassCounts) {
    let filled = counts.histogram.iter().enumerate().filter(|(_, more)| **more > 0);
    let filled: Vec<(usize, u64)> = filled.map(|(bucket, more)| (bucket, *more)).collect();
    if filled.is_empty() {
        return;
    }
    let command = pipeline.cmd("BITFIELD").arg(key).arg("OVERFLOW").arg("SAT");
    for (bucket, more) in filled {
        command.arg("INCRBY").arg("u16").arg(format!("#{bucket}")).arg(more);
    }
    pipeline.ignore().cmd("EXPIRE").arg(key).arg(MINUTE_KEPT.as_secs()).ignore();
}
