//! The locks of unique jobs. Both stores use them; the embedded store restores them from the
//! records of its jobs.

use std::collections::{BTreeSet, HashMap};

use weir_base::clock::Timestamp;

use crate::custom::UniqueKey;

/// Locks that have run out and are removed with each new one. More than one, so that they do not
/// pile up; few, so that a push does not wait for them.
const OVER_PER_LOCK: usize = 4;

/// A held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeldLock<J> {
    job: J,
    until: Timestamp,
}

/// All held locks, each by one job.
#[derive(Clone, Debug)]
pub(crate) struct UniqueLocks<J> {
    held: HashMap<UniqueKey, HeldLock<J>, foldhash::fast::RandomState>,
    by_end: BTreeSet<(Timestamp, UniqueKey)>,
}

impl<J> Default for UniqueLocks<J> {
    fn default() -> Self {
        Self { held: HashMap::default(), by_end: BTreeSet::new() }
    }
}

impl<J: Copy + PartialEq> UniqueLocks<J> {
    /// Returns the number of locks, some of which may have run out.
    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns whether a job holds the lock `key`.
    pub(crate) fn is_held(&self, key: UniqueKey, now: Timestamp) -> bool {
        self.held.get(&key).is_some_and(|lock| lock.until > now)
    }

    /// Returns the job that holds the lock `key`, which may have run out.
    pub(crate) fn holder(&self, key: UniqueKey) -> Option<J> {
        self.held.get(&key).map(|lock| lock.job)
    }

    /// Removes locks that have run out, until fewer than `max` are left if possible. Returns the jobs
    /// that held them.
    pub(crate) fn make_room(&mut self, max: usize, now: Timestamp) -> Vec<J> {
        let mut jobs = Vec::new();
        while let Some(&(until, key)) = self.by_end.first()
            && until <= now
            && (jobs.len() < OVER_PER_LOCK || self.held.len() >= max)
        {
            jobs.extend(self.remove(key));
        }
        jobs
    }

    /// Gives the lock `key` to `job` until that time. Returns the job that held it before.
    pub(crate) fn take(&mut self, key: UniqueKey, job: J, until: Timestamp) -> Option<J> {
        let before = self.remove(key);
        self.held.insert(key, HeldLock { job, until });
        self.by_end.insert((until, key));
        before
    }

    /// Frees the lock `key` if `job` holds it.
    pub(crate) fn free(&mut self, key: UniqueKey, job: J) {
        if self.held.get(&key).is_some_and(|lock| lock.job == job) {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: UniqueKey) -> Option<J> {
        let lock = self.held.remove(&key)?;
        self.by_end.remove(&(lock.until, key));
        Some(lock.job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn key(number: u128) -> UniqueKey {
        UniqueKey(number)
    }

    #[test]
    fn a_lock_ends_when_it_is_freed_or_runs_out() {
        let mut locks = UniqueLocks::default();
        locks.take(key(1), 'a', at(10));
        assert!(locks.is_held(key(1), at(9)));
        assert!(!locks.is_held(key(1), at(10)));
        locks.free(key(1), 'b');
        assert!(locks.is_held(key(1), at(9)), "another job does not free it");
        locks.free(key(1), 'a');
        assert!(!locks.is_held(key(1), at(9)));
        assert!(locks.by_end.is_empty());
    }

    #[test]
    fn a_lock_that_ran_out_does_not_free_that_of_the_next_job() {
        let mut locks = UniqueLocks::default();
        assert_eq!(locks.take(key(1), 'a', at(10)), None);
        assert_eq!(locks.take(key(1), 'b', at(30)), Some('a'));
        locks.free(key(1), 'a');
        assert!(locks.is_held(key(1), at(20)));
        assert_eq!((locks.len(), locks.by_end.len()), (1, 1));
    }

    #[test]
    fn locks_that_ran_out_make_room() {
        let mut locks = UniqueLocks::default();
        for number in 0..20 {
            locks.take(key(number), number, at(10 + u64::try_from(number).unwrap()));
        }
        assert_eq!(locks.make_room(20, at(5)), [], "none has run out");
        assert_eq!(locks.make_room(100, at(40)), [0, 1, 2, 3], "a few at a time");
        assert_eq!(locks.make_room(10, at(40)).len(), 7);
        assert_eq!((locks.len(), locks.by_end.len()), (9, 9));
    }
}
