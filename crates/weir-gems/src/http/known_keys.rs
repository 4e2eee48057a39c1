//! Caches recently used keys in memory. `bundle install` sends hundreds of requests, and its key is
//! looked up in the store at most once a second.
//!
//! A key that is revoked here stops working before the revocation returns. Another process with the
//! same store (on Postgres, or during a restart) trusts it for up to [`TRUSTED_FOR`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use weir_base::clock::Timestamp;

use crate::store::Key;

const TRUSTED_FOR: Duration = Duration::from_secs(1);
/// Maximum number of keys. With their names and patterns they take a few hundred kilobytes.
const KEYS_MAX: usize = 1_000;

/// Keys by the digest of their text.
#[derive(Debug, Default)]
pub(super) struct KnownKeys(
    /// A std mutex: it is locked only for one lookup or insertion.
    Mutex<Known>,
);

#[derive(Debug, Default)]
struct Known {
    epoch: Epoch,
    keys: HashMap<[u8; 32], Trusted>,
}

/// Number of times the cache was cleared. A key that was looked up before the last time is not
/// inserted after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Epoch(u64);

#[derive(Debug)]
struct Trusted {
    key: Arc<Key>,
    since: Timestamp,
}

impl KnownKeys {
    pub(super) fn get(&self, hash: [u8; 32], now: Timestamp) -> Option<Arc<Key>> {
        let known = self.known();
        let trusted = known.keys.get(&hash)?;
        // If the clock was set back, the age is unknown and the key is looked up again.
        let is_trusted = trusted.since <= now && now.since(trusted.since) < TRUSTED_FOR;
        is_trusted.then(|| Arc::clone(&trusted.key))
    }

    /// Returns whether the store had this key at its last lookup, however long ago that was, if the
    /// key is still cached.
    pub(super) fn was_right(&self, hash: [u8; 32]) -> bool {
        self.known().keys.contains_key(&hash)
    }

    /// Returns the current epoch for [`KnownKeys::put`]. Call this before the lookup in the store.
    pub(super) fn epoch(&self) -> Epoch {
        self.known().epoch
    }

    /// Caches a key that the store had at `since`.
    pub(super) fn put(&self, hash: [u8; 32], key: Arc<Key>, since: Timestamp, epoch: Epoch) {
        let mut known = self.known();
        if known.epoch != epoch {
            return;
        }
        if known.keys.len() >= KEYS_MAX && !known.keys.contains_key(&hash) {
            known.keys.clear();
        }
        known.keys.insert(hash, Trusted { key, since });
    }

    /// Clears the cache after a key was revoked.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        known.epoch.0 += 1;
        known.keys.clear();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::KeySettings;

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    fn key() -> Arc<Key> {
        let settings = KeySettings {
            name: "ci".to_owned(),
            scopes: Vec::new(),
            gems: Vec::new(),
            expires_at_us: None,
        };
        Arc::new(Key { id: 1, settings, created_at: NOW })
    }

    #[test]
    fn a_key_is_trusted_for_a_moment() {
        let known = KnownKeys::default();
        assert_eq!(known.get([1; 32], NOW), None);
        known.put([1; 32], key(), NOW, known.epoch());
        assert_eq!(known.get([1; 32], NOW), Some(key()));
        assert_eq!(known.get([2; 32], NOW), None);
        assert_eq!(known.get([1; 32], NOW + TRUSTED_FOR), None);
        assert_eq!(known.get([1; 32], NOW - TRUSTED_FOR), None);
        assert!(known.was_right([1; 32]) && !known.was_right([2; 32]));
    }

    #[test]
    fn what_was_looked_up_before_a_revocation_is_not_kept_after_it() {
        let known = KnownKeys::default();
        known.put([1; 32], key(), NOW, known.epoch());
        let before = known.epoch();
        known.forget();
        assert_eq!(known.get([1; 32], NOW), None);
        known.put([1; 32], key(), NOW, before);
        assert_eq!(known.get([1; 32], NOW), None);
        known.put([1; 32], key(), NOW, known.epoch());
        assert_eq!(known.get([1; 32], NOW), Some(key()));
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let known = KnownKeys::default();
        for number in 0..3 * KEYS_MAX {
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&(number as u64).to_be_bytes());
            known.put(hash, key(), NOW, known.epoch());
            assert_eq!(known.get(hash, NOW), Some(key()));
        }
        assert_eq!(known.known().keys.len(), KEYS_MAX);
    }
}
