//! Sidekiq's counters of processed and failed jobs, to which this node adds its own.

use std::rc::Rc;
use std::time::Duration;

use redis::Pipeline;
use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection as MultiplexedConnection;
use super::store_core::StoreCore;

/// How long Sidekiq keeps the counters of a day.
const DAY_KEPT: Duration = Duration::from_secs(5 * 365 * 24 * 3_600);
/// Characters of `2026-11-20`.
const DATE_CHARACTERS: usize = 10;

impl StoreCore {
    /// Adds the jobs that have ended since the last call to Sidekiq's counters.
    pub(super) async fn flush_statistics(
        self: &Rc<Self>,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), StoreError> {
        let (totals, flushed) = {
            let state = self.state.borrow();
            (state.totals, state.flushed)
        };
        let processed = totals.processed.saturating_sub(flushed.processed);
        let failed = totals.failed.saturating_sub(flushed.failed);
        if processed == 0 && failed == 0 {
            return Ok(());
        }
        let now = weir_jobs::stamp::rfc3339(self.now());
        let mut pipeline = Pipeline::new();
        pipeline.atomic();
        for (name, jobs) in [("processed", processed), ("failed", failed)] {
            let day = self.keys.statistic(name, Some(&now[..DATE_CHARACTERS]));
            pipeline.cmd("INCRBY").arg(self.keys.statistic(name, None)).arg(jobs).ignore();
            pipeline.cmd("INCRBY").arg(&day).arg(jobs).ignore();
            pipeline.cmd("EXPIRE").arg(&day).arg(DAY_KEPT.as_secs()).ignore();
        }
        // If the connection breaks here, the jobs are counted with the next call: rather twice than
        // never.
        let added: Result<(), _> = pipeline.query_async(connection).await;
        added.map_err(|error| self.link.failed(&error))?;
        self.state.borrow_mut().flushed = totals;
        Ok(())
    }
}
