//! Verifies the store within its time limit.

use std::sync::Arc;

use tokio::time::timeout;
use weir_base::clock::Timestamp;

use super::Inner;
use super::metrics::Limit;
use crate::store::statements::verify::verify as run;
use crate::store::{Repair, Report, StoreError};

pub(super) async fn verify(
    inner: &Arc<Inner>,
    repair: Repair,
    now: Timestamp,
) -> Result<Report, StoreError> {
    match repair {
        Repair::Fix => {
            inner.write(Limit::Maintenance, move |it| Box::pin(run(it, repair, now))).await
        }
        Repair::Leave => {
            let time = inner.pool.limits.maintenance_timeout;
            let mut lease = inner.lease().await?;
            let checked =
                timeout(time, async { run(&lease.snapshot(time).await?, repair, now).await });
            let checked = checked.await;
            inner.pool.settle(lease, Limit::Maintenance, checked)
        }
    }
}
