//! Updates the statistics of Postgres, so that plans fit the present size of the tables.

use std::sync::Arc;

use super::Inner;
use super::metrics::Limit;
use crate::store::StoreError;

/// Minimum number of rows: below it, plans make no difference.
const LEAST: u64 = 1_024;

impl Inner {
    pub(super) async fn analyze_if(self: &Arc<Self>, is_due: bool) -> Result<(), StoreError> {
        if !is_due {
            return Ok(());
        }
        let analyze = "ANALYZE gems, releases, infos, fragments, origins, upstream_gems";
        self.write(Limit::Maintenance, move |transaction| {
            Box::pin(async move { Ok(transaction.batch_execute(analyze).await?) })
        })
        .await
    }
}

/// Returns whether the row ids have passed a power of two. This is often enough for good plans, and
/// rare at any size.
pub(super) const fn has_doubled(before: u64, after: u64) -> bool {
    after >= LEAST && after.ilog2() > (before | 1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_grows_is_looked_at_a_few_times() {
        let looks = (0..10_000).step_by(7).filter(|before| has_doubled(*before, before + 7));
        // Expected at 1,024, 2,048, 4,096 and 8,192.
        assert_eq!(looks.count(), 4);
        assert!(!has_doubled(0, 0) && !has_doubled(5, 500) && has_doubled(0, 5_000));
    }
}
