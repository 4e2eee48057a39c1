//! When jobs returned to their queues because their worker ended: the wait of their next run begins there.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use weir_base::clock::Timestamp;

/// Jobs that are remembered, each with about 50 bytes. The wait of a job that was forgotten begins when it was
/// enqueued.
const REMEMBERED_MAX: usize = 10_000;

/// The times, by a hash of the jid.
#[derive(Debug, Default)]
pub(super) struct ReturnedJobs {
    hasher: RandomState,
    times: HashMap<u64, Timestamp>,
    oldest: VecDeque<u64>,
}

impl ReturnedJobs {
    pub(super) fn insert(&mut self, jid: &str, now: Timestamp) {
        let key = self.hasher.hash_one(jid);
        if self.times.insert(key, now).is_none() {
            self.oldest.push_back(key);
        }
        while self.oldest.len() > REMEMBERED_MAX {
            let forgotten = self.oldest.pop_front();
            forgotten.and_then(|key| self.times.remove(&key));
        }
    }

    /// Removes the time at which a job returned.
    pub(super) fn take(&mut self, jid: &str) -> Option<Timestamp> {
        if self.times.is_empty() {
            return None;
        }
        // Its place in `oldest` goes when its time comes.
        self.times.remove(&self.hasher.hash_one(jid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_remembered_once_and_the_oldest_are_forgotten() {
        let mut returned = ReturnedJobs::default();
        for number in 0..=REMEMBERED_MAX as u64 {
            returned.insert(&number.to_string(), Timestamp::from_micros(number));
        }
        assert_eq!(returned.take("0"), None, "it is the oldest");
        assert_eq!(returned.take("1"), Some(Timestamp::from_micros(1)));
        assert_eq!(returned.take("1"), None);
        assert!(returned.oldest.len() <= REMEMBERED_MAX);
    }
}
