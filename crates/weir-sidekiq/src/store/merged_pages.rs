//! Pages of several places, merged by time: of all shards, or of a queue and its blocked jobs.
//!
//! The order is that of the times, then of the places, then of a place itself. A key tells its time but not its place,
//! so a page that goes on behind one first finds out which places have it.

use weir_jobs::model::EntryKey;
use weir_jobs::store::{ScanPage, ScanRequest, StoredJob};

/// A page, and the times of all entries that it has examined.
pub(super) type ExaminedPage = (ScanPage, Vec<u64>);

/// A job on the page of a place, with its place in the merged order.
struct MergedJob {
    order: u64,
    place: usize,
    job: StoredJob,
}

/// Returns where the walk through one place goes on. An empty jid stands for the first entry of its
/// time. Places are walked in their order, whatever the direction.
pub(super) fn start_after(
    key: &EntryKey,
    place: usize,
    holder: Option<usize>,
    newest_first: bool,
) -> EntryKey {
    let first_of = |order| EntryKey { order, jid: Box::from("") };
    match holder {
        // All of its time have been listed here.
        Some(holder) if place < holder && newest_first => first_of(key.order.saturating_sub(1)),
        Some(holder) if place < holder => first_of(key.order.saturating_add(1)),
        Some(holder) if place == holder => key.clone(),
        // None of its time has been listed here, or its entry is gone.
        _ => first_of(key.order),
    }
}

/// Merges the pages of all places into one. It ends where the first page ends that has more behind
/// it.
pub(super) fn merged(pages: Vec<(usize, ExaminedPage)>, request: &ScanRequest) -> ExaminedPage {
    let rank = |order: u64, place: usize| {
        (if request.newest_first { u64::MAX - order } else { order }, place)
    };
    let horizon = pages
        .iter()
        .filter_map(|(place, (page, _))| Some((*place, page.next.clone()?)))
        .min_by_key(|(place, next)| rank(next.order, *place));
    let mut jobs: Vec<MergedJob> = Vec::new();
    let mut examined = Vec::with_capacity(pages.len());
    for (place, (page, orders)) in pages {
        examined.push((place, orders));
        let of_place = page.jobs.into_iter();
        jobs.extend(of_place.map(|job| MergedJob { order: job.key.order, place, job }));
    }
    // A stable sort keeps the order of each place.
    jobs.sort_by_key(|it| rank(it.order, it.place));
    if let Some((place, next)) = &horizon {
        // Its own page is whole, even if its jobs are not quite in the order of time.
        let end = rank(next.order, *place);
        jobs.retain(|it| it.place == *place || rank(it.order, it.place) <= end);
    }
    let is_cut = jobs.len() > request.limit;
    jobs.truncate(request.limit);
    let last = jobs.last().filter(|_| is_cut).map(|it| it.job.key.clone());
    // The next page examines again what is behind the end of this one.
    let end = match (&horizon, jobs.last()) {
        (_, Some(last)) if is_cut => Some((rank(last.order, last.place), None)),
        (Some((place, next)), _) => Some((rank(next.order, *place), Some(*place))),
        (None, _) => None,
    };
    let is_passed = |place: usize, order: u64| {
        end.is_none_or(|(end, whole)| whole == Some(place) || rank(order, place) <= end)
    };
    let passed = examined.into_iter().flat_map(|(place, orders)| {
        orders.into_iter().filter(move |order| is_passed(place, *order))
    });
    let orders: Vec<u64> = passed.collect();
    let next = last.or(horizon.map(|(_, next)| next));
    let jobs = jobs.into_iter().map(|it| it.job).collect();
    (ScanPage { jobs, next, scanned: orders.len(), missing: None }, orders)
}
