//! Counts downloads of `.gem` files in memory; the store saves the counts every few seconds
//! ([`crate::Gems::write_downloads`]). A crash loses the unsaved counts. No request waits for a
//! count to be saved.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Download counts that are not saved yet.
#[derive(Debug, Default)]
pub(crate) struct Downloads {
    /// Counts by full name. A std mutex: it is locked only to add one count.
    waiting: Mutex<HashMap<String, u64>>,
}

impl Downloads {
    /// Counts one download. Returns false, and does not count, if `waiting_max` other releases
    /// already have unsaved counts.
    pub(crate) fn count(&self, full_name: &str, waiting_max: usize) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(full_name) {
            *count += 1;
            return true;
        }
        let has_room = waiting.len() < waiting_max;
        if has_room {
            waiting.insert(full_name.to_owned(), 1);
        }
        has_room
    }

    /// Takes all counts that are to be saved.
    pub(crate) fn take(&self) -> Vec<(String, u64)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *waiting).into_iter().collect()
    }

    /// Adds counts back that could not be saved.
    pub(crate) fn put_back(&self, counts: Vec<(String, u64)>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for (full_name, count) in counts {
            *waiting.entry(full_name).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_bounded_and_not_lost_by_a_store_that_fails() {
        let downloads = Downloads::default();
        let counted = ["a-1", "b-1", "a-1", "c-1"].map(|name| downloads.count(name, 2));
        assert_eq!(counted, [true, true, true, false]);
        let mut taken = downloads.take();
        taken.sort_unstable();
        assert_eq!(taken, [("a-1".to_owned(), 2), ("b-1".to_owned(), 1)]);
        assert!(downloads.take().is_empty());
        downloads.count("a-1", 2);
        downloads.put_back(taken);
        let mut taken = downloads.take();
        taken.sort_unstable();
        assert_eq!(taken, [("a-1".to_owned(), 3), ("b-1".to_owned(), 1)]);
    }
}
