//! Pages of queues and sets over all shards, merged by time.
//!
//! The order is that of the times, then of the shards, then of a shard itself. A key tells its time
//! but not its shard, so a page that goes on behind one first finds out which shards have it.

use std::ops::ControlFlow;

use weir_jobs::metrics::StoreOperation;
use weir_jobs::model::{EntryKey, JobLocation};
use weir_jobs::store::{ScanPage, ScanRequest, StoreError};

use super::shard::Shard;
use super::sharded_core::ShardedCore;
use crate::store::merged_pages::{merged, start_after};
use crate::store::store_core::StoreCore;

impl ShardedCore {
    pub(super) async fn scan(&self, request: ScanRequest) -> Result<ScanPage, StoreError> {
        self.check_open()?;
        let holder = match &request.after {
            Some(key) => self.last_with(&request.place, key).await?,
            None => None,
        };
        let place_of = |shard: &Shard| {
            self.shards.iter().position(|it| std::ptr::eq(it, shard)).unwrap_or_default()
        };
        let pages = self.on_all(async |shard: &Shard| {
            let after = request
                .after
                .as_ref()
                .map(|key| start_after(key, place_of(shard), holder, request.newest_first));
            let request = ScanRequest { after, ..request.clone() };
            shard.timed(StoreOperation::Scan, shard.core().scan_with_orders(&request)).await
        });
        let pages = pages.await;
        let missing = pages.missing_text();
        let (mut page, _) = merged(pages.any_done()?, &request);
        page.missing = missing;
        Ok(page)
    }

    /// Returns the last shard, in the direction of the walk, that has the entry of `key`.
    async fn last_with(
        &self,
        location: &JobLocation,
        key: &EntryKey,
    ) -> Result<Option<usize>, StoreError> {
        let found = self.on_all(async |shard: &Shard| shard.core().has_entry(location, key).await);
        let found = found.await.any_done()?.into_iter().filter(|(_, has_it)| *has_it);
        Ok(found.map(|(shard, _)| shard).max())
    }
}

impl StoreCore {
    async fn has_entry(
        self: &std::rc::Rc<Self>,
        location: &JobLocation,
        key: &EntryKey,
    ) -> Result<bool, StoreError> {
        let mut connection = self.ready().await?;
        Ok(match location {
            JobLocation::Queue(queue) => {
                self.find_entry(&mut connection, queue, key).await?.is_some()
            }
            JobLocation::Set(set) => {
                let mut is_there = false;
                let read = self.each_at(&mut connection, *set, key.order, false, |entry| {
                    is_there = entry.key() == *key;
                    if is_there { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                read.await?;
                is_there
            }
        })
    }
}
