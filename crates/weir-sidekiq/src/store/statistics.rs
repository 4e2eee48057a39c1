//! Sidekiq's counters of processed and failed jobs, to which this node adds its own.

use std::rc::Rc;
use std::time::Duration;

use weir_jobs::store::StoreError;

use super::link_connection::LinkConnection;
use super::store_core::StoreCore;

/// How long Sidekiq keeps the counters of a day.
const DAY_KEPT: Duration = Duration::from_secs(5 * 365 * 24 * 3_600);
/// How long Redis remembers what it has added for a node that reports no more.
const COUNTED_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Characters of `2026-11-20`.
const DATE_CHARACTERS: usize = 10;

impl StoreCore {
    /// Adds the jobs that have ended since the last call to Sidekiq's counters. The script knows what
    /// it has added before, so a lost reply counts no job twice.
    pub(super) async fn flush_statistics(
        self: &Rc<Self>,
        connection: &mut LinkConnection,
    ) -> Result<(), StoreError> {
        let (totals, flushed) = {
            let state = self.state.borrow();
            (state.totals, state.flushed)
        };
        if (totals.processed, totals.failed) == (flushed.processed, flushed.failed) {
            return Ok(());
        }
        let token = self.token()?;
        let id = *self.state.borrow_mut().statistics_id.get_or_insert_with(|| fastrand::u64(..));
        let now = weir_jobs::stamp::rfc3339(self.now());
        let mut invocation = self.scripts.statistics.key(self.keys.nodes());
        invocation.key(self.keys.counted(&self.node));
        for name in ["processed", "failed"] {
            invocation.key(self.keys.statistic(name, None));
            invocation.key(self.keys.statistic(name, Some(&now[..DATE_CHARACTERS])));
        }
        invocation.arg(&token).arg(format!("{id:016x}"));
        invocation.arg(COUNTED_KEPT.as_secs()).arg(DAY_KEPT.as_secs());
        invocation.arg(totals.processed).arg(totals.failed);
        let added: Result<u8, _> = invocation.invoke_async(connection).await;
        if added.map_err(|error| self.link.failed(&error))? == 0 {
            return Err(self.lose_lease(&token));
        }
        self.state.borrow_mut().flushed = totals;
        Ok(())
    }
}
