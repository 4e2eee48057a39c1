//! Finds jobs of a list by their keys: first on the page that a walk has just read, where they are even if
//! the times of enqueueing are out of order, and then by these times.

use std::collections::{BTreeMap, VecDeque};

use weir_jobs::model::{EntryKey, QueueName};
use weir_jobs::store::StoreError;

use super::entries::RawEntry;
use super::link_connection::LinkConnection;
use super::scan::{TIES_MAX, WINDOW_JOBS};
use super::store_core::StoreCore;

/// Keys that are searched, and what was found.
struct Search {
    /// The places in the result, for each key.
    wanted: BTreeMap<(u64, Box<str>), VecDeque<usize>>,
    found: Vec<Option<RawEntry>>,
}

impl Search {
    fn new(keys: &[EntryKey]) -> Self {
        let mut wanted: BTreeMap<_, VecDeque<usize>> = BTreeMap::new();
        // A key without a jid stands for a time.
        for (place, key) in keys.iter().enumerate().filter(|(_, key)| !key.jid.is_empty()) {
            wanted.entry((key.order, key.jid.clone())).or_default().push_back(place);
        }
        Self { wanted, found: vec![None; keys.len()] }
    }

    fn take(&mut self, entries: Vec<RawEntry>) {
        for entry in entries {
            let EntryKey { order, jid } = entry.key();
            let key = (order, jid);
            let Some(places) = self.wanted.get_mut(&key) else { continue };
            if let Some(place) = places.pop_front() {
                self.found[place] = Some(entry);
            }
            if places.is_empty() {
                self.wanted.remove(&key);
            }
        }
    }

    /// The earliest time from `order` on of which a job is missing.
    fn next_from(&self, order: u64) -> Option<u64> {
        self.wanted.range((order, Box::from(""))..).next().map(|((order, _), _)| *order)
    }
}

impl StoreCore {
    /// Returns those of `keys` that are in the list of `queue`, in the order of the keys.
    pub(super) async fn listed_entries(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        keys: &[EntryKey],
    ) -> Result<Vec<RawEntry>, StoreError> {
        let mut search = Search::new(keys);
        self.search_last_page(connection, queue, &mut search).await?;
        let mut from = Some(0);
        while let Some(order) = from.and_then(|order| search.next_from(order)) {
            from = self.search_time(connection, queue, order, &mut search).await?;
        }
        Ok(search.found.into_iter().flatten().collect())
    }

    async fn search_last_page(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        search: &mut Search,
    ) -> Result<(), StoreError> {
        let (first, end) = match &*self.page_end.borrow() {
            Some(page) if page.queue == *queue => {
                (page.began.min(page.position), page.began.max(page.position))
            }
            _ => return Ok(()),
        };
        for start in (first.saturating_sub(WINDOW_JOBS / 2)..end).step_by(WINDOW_JOBS) {
            if search.wanted.is_empty() {
                break;
            }
            search.take(self.list_range(connection, queue, start, start + WINDOW_JOBS).await?);
        }
        Ok(())
    }

    /// Searches among the entries of about the time `order`. Jobs before the time that is returned and that are
    /// still missing are gone; with `None`, all of them.
    async fn search_time(
        &self,
        connection: &mut LinkConnection,
        queue: &QueueName,
        order: u64,
        search: &mut Search,
    ) -> Result<Option<u64>, StoreError> {
        let lower = self.first_from(connection, queue, order).await?;
        let first = lower.saturating_sub(WINDOW_JOBS / 2);
        for start in (first..lower + TIES_MAX).step_by(WINDOW_JOBS) {
            let window = self.list_range(connection, queue, start, start + WINDOW_JOBS).await?;
            if window.len() < WINDOW_JOBS {
                search.take(window);
                return Ok(None);
            }
            // Times may be a little out of order, so those near the end of the window count as not read.
            let read_to = window[WINDOW_JOBS / 2].key().order;
            search.take(window);
            if read_to > order {
                return Ok(Some(read_to));
            }
            if search.next_from(order).is_none_or(|next| next > order) {
                break;
            }
        }
        Ok(order.checked_add(1))
    }
}
