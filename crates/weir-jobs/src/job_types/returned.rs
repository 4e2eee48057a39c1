//! When jobs returned to their queues because their worker ended: the wait of their next run begins there.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use weir_base::clock::Timestamp;

/// Jobs that are remembered, each with about 60 bytes. The wait of a job that was forgotten begins when it was
/// enqueued.
const REMEMBERED_MAX: usize = 10_000;

/// The times, by a hash of the jid.
#[derive(Debug, Default)]
pub(super) struct ReturnedJobs {
    hasher: RandomState,
    times: HashMap<u64, Timestamp>,
    oldest: VecDeque<(u64, Timestamp)>,
}

impl ReturnedJobs {
    pub(super) fn insert(&mut self, jid: &str, now: Timestamp) {
        let key = self.hasher.hash_one(jid);
        self.times.insert(key, now);
        self.oldest.push_back((key, now));
        while self.oldest.len() > REMEMBERED_MAX
            && let Some((key, at)) = self.oldest.pop_front()
        {
            // It may have returned again since.
            if self.times.get(&key) == Some(&at) {
                self.times.remove(&key);
            }
        }
    }

    /// Returns when a job last returned. It is remembered on, because its next start may not be delivered.
    pub(super) fn time_of(&self, jid: &str) -> Option<Timestamp> {
        if self.times.is_empty() {
            return None;
        }
        self.times.get(&self.hasher.hash_one(jid)).copied()
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
        assert_eq!(returned.time_of("0"), None, "it is the oldest");
        assert_eq!(returned.time_of("1"), Some(Timestamp::from_micros(1)));
        assert!(returned.oldest.len() <= REMEMBERED_MAX);
        assert!(returned.times.len() <= REMEMBERED_MAX);
    }

    #[test]
    fn a_second_return_is_not_forgotten_with_the_first() {
        let mut returned = ReturnedJobs::default();
        for at in [1, 2] {
            returned.insert("twice", Timestamp::from_micros(at));
        }
        for number in 1..REMEMBERED_MAX {
            returned.insert(&number.to_string(), Timestamp::from_micros(3));
        }
        assert_eq!(returned.time_of("twice"), Some(Timestamp::from_micros(2)));
    }
}
