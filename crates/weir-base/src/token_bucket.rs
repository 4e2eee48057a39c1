//! A token bucket: at most `burst` at once, and one more after each `interval`.
//!
//! The bucket is kept as the moment at which it will be full again (the generic cell rate
//! algorithm, ITU-T I.371), so it is 8 bytes, needs no timer and no fractions, and a wait is
//! exact. The caller passes the time.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use crate::clock::Timestamp;

/// How much a bucket lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    burst: u32,
    interval: Duration,
}

impl Rate {
    /// `burst` tokens at once (at least 1), one more after each `interval`.
    #[must_use]
    pub const fn new(burst: u32, interval: Duration) -> Self {
        Self { burst: if burst == 0 { 1 } else { burst }, interval }
    }

    /// `burst` tokens at once, and `per_second` more in each second (at least 1 of both).
    #[must_use]
    pub const fn per_second(per_second: u32, burst: u32) -> Self {
        let nanoseconds = 1_000_000_000 / if per_second == 0 { 1 } else { per_second };
        Self::new(burst, Duration::from_nanos(nanoseconds as u64))
    }

    /// Tokens at once.
    #[must_use]
    pub const fn burst(self) -> u32 {
        self.burst
    }

    /// Tokens that come back in a second, rounded down.
    #[must_use]
    pub fn tokens_per_second(self) -> u32 {
        let tokens = 1_000_000_000_u128.checked_div(self.interval.as_nanos()).unwrap_or(u128::MAX);
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// How long an empty bucket takes to fill.
    fn capacity(self) -> Duration {
        self.interval.saturating_mul(self.burst)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at once, one more each {:?}", self.burst, self.interval)
    }
}

/// There is no token now; there will be after `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many tries; the next one is possible in {} s", wait.as_secs().saturating_add(1))]
pub struct Empty {
    pub wait: Duration,
}

/// One bucket. New ones are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    full_at: Timestamp,
}

impl TokenBucket {
    /// Takes one token, or says how long until there is one. A refusal takes nothing.
    pub fn take(&mut self, rate: Rate, now: Timestamp) -> Result<(), Empty> {
        let full_after = self.full_at.max(now) + rate.interval;
        let wait = full_after.since(now).saturating_sub(rate.capacity());
        if wait.is_zero() {
            self.full_at = full_after;
            return Ok(());
        }
        Err(Empty { wait })
    }

    /// Whether every token is back: such a bucket needs no memory.
    #[must_use]
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.full_at <= now
    }
}

/// A bucket per key (a client's address), for a bounded number of keys. When all places are taken
/// by buckets in use, new keys share one: a flood of addresses slows itself down, not the others.
#[derive(Debug)]
pub struct KeyedBuckets<K> {
    rate: Rate,
    keys_max: usize,
    buckets: HashMap<K, TokenBucket>,
    overflow: TokenBucket,
}

impl<K: Eq + Hash> KeyedBuckets<K> {
    /// No key has a bucket yet; at most `keys_max` will.
    #[must_use]
    pub fn new(rate: Rate, keys_max: usize) -> Self {
        Self { rate, keys_max, buckets: HashMap::new(), overflow: TokenBucket::default() }
    }

    /// Takes one of `key`'s tokens.
    pub fn take(&mut self, key: K, now: Timestamp) -> Result<(), Empty> {
        if !self.buckets.contains_key(&key) && self.buckets.len() >= self.keys_max {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            if self.buckets.len() >= self.keys_max {
                return self.overflow.take(self.rate, now);
            }
        }
        self.buckets.entry(key).or_default().take(self.rate, now)
    }

    /// Gives `key` all its tokens back.
    pub fn forgive(&mut self, key: &K) {
        self.buckets.remove(key);
    }

    /// How many keys have a bucket.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether no key has a bucket.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RATE: Rate = Rate::new(3, Duration::from_secs(10));

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + seconds * 1_000)
    }

    #[test]
    fn a_burst_passes_then_one_per_interval() {
        let mut bucket = TokenBucket::default();
        for _ in 0..3 {
            assert_eq!(bucket.take(RATE, at(0)), Ok(()));
        }
        assert_eq!(bucket.take(RATE, at(0)), Err(Empty { wait: Duration::from_secs(10) }));
        assert_eq!(bucket.take(RATE, at(7)), Err(Empty { wait: Duration::from_secs(3) }));
        assert_eq!(bucket.take(RATE, at(10)), Ok(()));
        assert!(bucket.take(RATE, at(10)).is_err());
    }

    #[test]
    fn a_bucket_never_holds_more_than_its_burst() {
        let mut bucket = TokenBucket::default();
        assert_eq!(bucket.take(RATE, at(0)), Ok(()));
        let taken = (0..100).filter(|_| bucket.take(RATE, at(100_000)).is_ok()).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn a_flood_of_keys_shares_one_bucket_and_spares_the_known() {
        let mut buckets = KeyedBuckets::new(RATE, 2);
        assert!(buckets.take(1, at(0)).is_ok() && buckets.take(2, at(0)).is_ok());
        let strangers = (100..200).filter(|key| buckets.take(*key, at(0)).is_ok()).count();
        assert_eq!((strangers, buckets.len()), (3, 2));
        assert!(buckets.take(1, at(0)).is_ok(), "a known key has its own tokens");
        assert!(buckets.take(300, at(60)).is_ok());
        assert_eq!(buckets.len(), 1, "full buckets make room");
    }

    proptest! {
        #[test]
        fn a_rate_per_second_says_what_it_was_made_of(per_second in 1_u32..=30_000, burst: u32) {
            let rate = Rate::per_second(per_second, burst);
            prop_assert_eq!(rate.tokens_per_second(), per_second);
            prop_assert_eq!(rate.burst(), burst.max(1));
        }

        /// Over any stretch no more pass than the burst and one per interval.
        #[test]
        fn the_rate_holds_over_any_stretch(steps in prop::collection::vec(0_u64..15_000, 1..200)) {
            let (mut bucket, mut now, mut passed) = (TokenBucket::default(), at(0), Vec::new());
            for step in steps {
                now = now + Duration::from_millis(step);
                if bucket.take(RATE, now).is_ok() {
                    passed.push(now);
                }
            }
            for (index, start) in passed.iter().enumerate() {
                for (count, end) in passed[index..].iter().enumerate() {
                    let allowed = 3 + end.since(*start).as_secs() / 10;
                    prop_assert!((count as u64) < allowed);
                }
            }
        }
    }
}
