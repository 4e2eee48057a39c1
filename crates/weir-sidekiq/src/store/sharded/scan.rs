//! Pages of queues and sets over all shards, merged by time.
//!
//! The order is that of the times, then of the shards, then of a shard itself. A key tells its time
//! but not its shard, so a page that goes on behind one first finds out which shards have it.

use std::ops::ControlFlow;

use weir_jobs::metrics::StoreOperation;
use weir_jobs::model::{EntryKey, JobLocation};
use weir_jobs::store::{ScanPage, ScanRequest, StoreError, StoredJob};

use super::shard::Shard;
use super::sharded_core::ShardedCore;
use crate::store::store_core::StoreCore;

/// A job on the page of a shard, with its place in the merged order.
struct MergedJob {
    order: u64,
    shard: usize,
    job: StoredJob,
}

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
        let mut page = merged(pages.any_done()?, &request);
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

/// Returns where the walk through one shard goes on. An empty jid stands for the first entry of its
/// time. Shards are walked in the order of their places, whatever the direction.
fn start_after(
    key: &EntryKey,
    shard: usize,
    holder: Option<usize>,
    newest_first: bool,
) -> EntryKey {
    let first_of = |order| EntryKey { order, jid: Box::from("") };
    match holder {
        // All of its time have been listed here.
        Some(holder) if shard < holder && newest_first => first_of(key.order.saturating_sub(1)),
        Some(holder) if shard < holder => first_of(key.order.saturating_add(1)),
        Some(holder) if shard == holder => key.clone(),
        // None of its time has been listed here, or its entry is gone.
        _ => first_of(key.order),
    }
}

/// Merges the pages of all shards into one. It ends where the first page ends that has more behind
/// it.
fn merged(pages: Vec<(usize, (ScanPage, Vec<u64>))>, request: &ScanRequest) -> ScanPage {
    let rank = |order: u64, shard: usize| {
        (if request.newest_first { u64::MAX - order } else { order }, shard)
    };
    let horizon = pages
        .iter()
        .filter_map(|(shard, (page, _))| Some((*shard, page.next.clone()?)))
        .min_by_key(|(shard, next)| rank(next.order, *shard));
    let mut jobs: Vec<MergedJob> = Vec::new();
    let mut examined = Vec::with_capacity(pages.len());
    for (shard, (page, orders)) in pages {
        examined.push((shard, orders));
        let of_shard = page.jobs.into_iter();
        jobs.extend(of_shard.map(|job| MergedJob { order: job.key.order, shard, job }));
    }
    // A stable sort keeps the order of each shard.
    jobs.sort_by_key(|it| rank(it.order, it.shard));
    if let Some((shard, next)) = &horizon {
        // Its own page is whole, even if its jobs are not quite in the order of time.
        let end = rank(next.order, *shard);
        jobs.retain(|it| it.shard == *shard || rank(it.order, it.shard) <= end);
    }
    let is_cut = jobs.len() > request.limit;
    jobs.truncate(request.limit);
    let last = jobs.last().filter(|_| is_cut).map(|it| it.job.key.clone());
    // The next page examines again what is behind the end of this one.
    let end = match (&horizon, jobs.last()) {
        (_, Some(last)) if is_cut => Some((rank(last.order, last.shard), None)),
        (Some((shard, next)), _) => Some((rank(next.order, *shard), Some(*shard))),
        (None, _) => None,
    };
    let is_passed = |shard: usize, order: u64| {
        end.is_none_or(|(end, whole)| whole == Some(shard) || rank(order, shard) <= end)
    };
    let scanned = examined
        .iter()
        .map(|(shard, orders)| orders.iter().filter(|order| is_passed(*shard, **order)).count());
    let scanned = scanned.sum();
    let next = last.or(horizon.map(|(_, next)| next));
    let jobs = jobs.into_iter().map(|it| it.job).collect();
    ScanPage { jobs, next, scanned, missing: None }
}
