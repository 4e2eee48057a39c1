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

/// One of Sidekiq's counters.
#[derive(Debug)]
struct Counter<'a> {
    name: &'static str,
    key: String,
    /// Jobs of this process since its start.
    total: u64,
    /// Those of them that this process knows to be in the counters.
    added: u64,
    day: Option<&'a str>,
}

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
        let mut counters = Vec::new();
        for (name, total, added) in [
            ("processed", totals.processed, flushed.processed),
            ("failed", totals.failed, flushed.failed),
        ] {
            for day in [None, Some(&now[..DATE_CHARACTERS])] {
                counters.push(Counter {
                    name,
                    key: self.keys.statistic(name, day),
                    total,
                    added,
                    day,
                });
            }
        }
        if self.is_split() {
            // Each counter has what was added for the node on its own slot. A node adds only its own
            // jobs, so no lease is needed.
            for counter in counters {
                let counted = self.keys.counted_beside(&counter.key, &self.node);
                self.add_to_counters(connection, counted, "", id, &[counter]).await?;
            }
        } else {
            let counted = self.keys.counted(&self.node);
            if !self.add_to_counters(connection, counted, &token, id, &counters).await? {
                return Err(self.lose_lease(&token));
            }
        }
        self.state.borrow_mut().flushed = totals;
        Ok(())
    }

    /// Adds to counters what was not added before. Returns whether the lease of `token` is alive.
    async fn add_to_counters(
        &self,
        connection: &mut LinkConnection,
        counted: String,
        token: &str,
        id: u64,
        counters: &[Counter<'_>],
    ) -> Result<bool, StoreError> {
        let mut invocation = self.scripts.statistics.key(counted);
        invocation.arg(token).arg(format!("{id:016x}")).arg(COUNTED_KEPT.as_secs());
        for Counter { name, key, total, added, day } in counters {
            let kept = day.map(|_| DAY_KEPT.as_secs().to_string()).unwrap_or_default();
            invocation.key(key).arg(*name).arg(*total).arg(*added).arg(kept);
        }
        if !token.is_empty() {
            invocation.key(self.keys.nodes());
        }
        let added: Result<u8, _> = invocation.invoke_async(connection).await;
        added.map(|added| added == 1).map_err(|error| self.link.failed(&error))
    }
}
