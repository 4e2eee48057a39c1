//! Postgres is told how much there is, so that its plans are for that and not for empty tables.

use std::sync::Arc;

use super::Inner;
use super::metrics::Limit;
use crate::store::StoreError;

/// Fewer rows are read whatever the plan is.
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

/// Whether numbers that are given to rows have passed a power of two: often enough for plans, and
/// seldom whatever there is.
pub(super) const fn has_doubled(before: u64, after: u64) -> bool {
    after >= LEAST && after.ilog2() > (before | 1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_grows_is_looked_at_a_few_times() {
        let looks = (0..10_000).step_by(7).filter(|before| has_doubled(*before, before + 7));
        // At 1,024, 2,048, 4,096 and 8,192.
        assert_eq!(looks.count(), 4);
        assert!(!has_doubled(0, 0) && !has_doubled(5, 500) && has_doubled(0, 5_000));
    }
}
