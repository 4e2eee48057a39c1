//! A token bucket: `burst` tokens at once, and one more after each `interval`.
//!
//! A bucket is stored as the time at which it will be full again (the generic cell rate algorithm,
//! ITU-T I.371), so it takes 8 bytes, needs no timer, and waits are exact. That time is in nanoseconds, so
//! that intervals of less than a microsecond add up to their rate. Times are arguments.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use crate::clock::Timestamp;

/// The rate of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    burst: u32,
    interval: Duration,
}

impl Rate {
    /// Creates a rate of `burst` tokens at once (at least 1), and one more after each `interval`.
    #[must_use]
    pub const fn new(burst: u32, interval: Duration) -> Self {
        Self { burst: if burst == 0 { 1 } else { burst }, interval }
    }

    /// Creates a rate of `burst` tokens at once and `per_second` more each second (both at least
    /// 1).
    #[must_use]
    pub const fn per_second(per_second: u32, burst: u32) -> Self {
        let nanoseconds = 1_000_000_000 / if per_second == 0 { 1 } else { per_second };
        Self::new(burst, Duration::from_nanos(nanoseconds as u64))
    }

    /// Returns the tokens available at once.
    #[must_use]
    pub const fn burst(self) -> u32 {
        self.burst
    }

    /// Returns the time after which one more token is there.
    #[must_use]
    pub const fn interval(self) -> Duration {
        self.interval
    }

    /// Returns how long an empty bucket takes to fill.
    #[must_use]
    pub const fn filled_after(self) -> Duration {
        self.interval.saturating_mul(self.burst)
    }

    /// Returns the tokens added per second, rounded down.
    #[must_use]
    pub fn tokens_per_second(self) -> u32 {
        let tokens = 1_000_000_000_u128.checked_div(self.interval.as_nanos()).unwrap_or(u128::MAX);
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    fn interval_ns(self) -> u64 {
        nanoseconds(self.interval)
    }

    fn capacity_ns(self) -> u64 {
        nanoseconds(self.filled_after())
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the nanoseconds since the Unix epoch. They last until the year 2554.
const fn nanoseconds_of(time: Timestamp) -> u64 {
    time.as_micros().saturating_mul(1_000)
}

/// Returns the first timestamp that is not before a time in nanoseconds.
const fn timestamp_from(nanoseconds: u64) -> Timestamp {
    Timestamp::from_micros(nanoseconds.div_ceil(1_000))
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at once, one more each {:?}", self.burst, self.interval)
    }
}

/// No token is available now; one will be after `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many tries; the next one is possible in {} s", wait.as_secs().saturating_add(1))]
pub struct Empty {
    pub wait: Duration,
}

/// One bucket. A new bucket is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// Nanoseconds since the Unix epoch.
    full_at_ns: u64,
}

impl TokenBucket {
    /// Takes one token, or returns how long to wait for one. A failed call takes nothing.
    pub fn take(&mut self, rate: Rate, now: Timestamp) -> Result<(), Empty> {
        let now_ns = nanoseconds_of(now);
        let full_after = self.full_at_ns.max(now_ns).saturating_add(rate.interval_ns());
        let wait = (full_after - now_ns).saturating_sub(rate.capacity_ns());
        if wait == 0 {
            self.full_at_ns = full_after;
            return Ok(());
        }
        Err(Empty { wait: Duration::from_nanos(wait) })
    }

    /// Returns when [`Self::take`] succeeds: `now`, if it does so at once.
    #[must_use]
    pub fn available_at(self, rate: Rate, now: Timestamp) -> Timestamp {
        let for_others = rate.capacity_ns().saturating_sub(rate.interval_ns());
        timestamp_from(self.full_at_ns.saturating_sub(for_others)).max(now)
    }

    /// Puts back a token that was taken just now and not used.
    pub fn put_back(&mut self, rate: Rate) {
        self.full_at_ns = self.full_at_ns.saturating_sub(rate.interval_ns());
    }

    /// Lets the bucket owe no more than it holds. Needed when its rate has changed or the clock was set back; `now` is then
    /// any time after which no token was taken.
    pub fn limit_debt(&mut self, rate: Rate, now: Timestamp) {
        let empty_until = nanoseconds_of(now).saturating_add(rate.capacity_ns());
        self.full_at_ns = self.full_at_ns.min(empty_until);
    }

    /// Returns when the bucket will be full, or an earlier time if it is.
    #[must_use]
    pub const fn full_at(self) -> Timestamp {
        timestamp_from(self.full_at_ns)
    }

    /// Returns whether the bucket is full: a full bucket need not be stored.
    #[must_use]
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.full_at_ns <= nanoseconds_of(now)
    }
}

/// A bucket per key (a client's address), for a limited number of keys. When all buckets are in
/// use, new keys share one, so a flood of addresses slows only itself.
#[derive(Debug)]
pub struct KeyedBuckets<K> {
    rate: Rate,
    keys_max: usize,
    buckets: HashMap<K, TokenBucket>,
    overflow: TokenBucket,
}

impl<K: Eq + Hash> KeyedBuckets<K> {
    /// Creates an empty set of at most `keys_max` buckets.
    #[must_use]
    pub fn new(rate: Rate, keys_max: usize) -> Self {
        Self { rate, keys_max, buckets: HashMap::new(), overflow: TokenBucket::default() }
    }

    /// Takes a token of `key`'s bucket.
    pub fn take(&mut self, key: K, now: Timestamp) -> Result<(), Empty> {
        if !self.buckets.contains_key(&key) && self.buckets.len() >= self.keys_max {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            if self.buckets.len() >= self.keys_max {
                return self.overflow.take(self.rate, now);
            }
        }
        self.buckets.entry(key).or_default().take(self.rate, now)
    }

    /// Refills the bucket of `key`.
    pub fn forgive(&mut self, key: &K) {
        self.buckets.remove(key);
    }

    /// Returns the number of keys with a bucket.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Returns whether no key has a bucket.
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
    fn burst_passes_then_one_per_interval() {
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
    fn bucket_never_exceeds_its_burst() {
        let mut bucket = TokenBucket::default();
        assert_eq!(bucket.take(RATE, at(0)), Ok(()));
        let taken = (0..100).filter(|_| bucket.take(RATE, at(100_000)).is_ok()).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn too_many_keys_share_one_bucket() {
        let mut buckets = KeyedBuckets::new(RATE, 2);
        assert!(buckets.take(1, at(0)).is_ok() && buckets.take(2, at(0)).is_ok());
        let overflow_bucket = (100..200).filter(|key| buckets.take(*key, at(0)).is_ok()).count();
        assert_eq!((overflow_bucket, buckets.len()), (3, 2));
        assert!(buckets.take(1, at(0)).is_ok(), "a known key has its own tokens");
        assert!(buckets.take(300, at(60)).is_ok());
        assert_eq!(buckets.len(), 1, "full buckets make room");
    }

    #[test]
    fn a_token_is_available_when_it_is_said_to_be() {
        let mut bucket = TokenBucket::default();
        assert_eq!(bucket.available_at(RATE, at(5)), at(5));
        (0..3).for_each(|_| bucket.take(RATE, at(5)).unwrap());
        assert_eq!((bucket.available_at(RATE, at(6)), bucket.full_at()), (at(15), at(35)));
        bucket.put_back(RATE);
        assert_eq!(bucket.available_at(RATE, at(6)), at(6));
        bucket.take(RATE, at(6)).unwrap();
        assert!(bucket.take(RATE, at(6)).is_err(), "the token that was put back is used");
    }

    #[test]
    fn a_bucket_owes_no_more_than_it_holds() {
        let slow = Rate::new(1, Duration::from_secs(86_400));
        let mut bucket = TokenBucket::default();
        bucket.take(slow, at(100)).unwrap();
        bucket.limit_debt(slow, at(100));
        assert_eq!(bucket.full_at(), at(86_500));
        bucket.limit_debt(RATE, at(101));
        assert_eq!(bucket.available_at(RATE, at(101)), at(111), "the rate is faster now");
        bucket.limit_debt(RATE, at(0));
        assert_eq!(bucket.available_at(RATE, at(0)), at(10), "the clock was set back");
    }

    proptest! {
        /// Over any period at most the burst and one token per interval; with demand all the time, no less, although
        /// the interval is no whole number of microseconds.
        #[test]
        fn a_rate_holds_over_any_period_and_is_reached(
            (burst, interval_ns) in (2_u32..6, 1_000_u64..5_000),
            steps in prop::collection::vec(0_u64..40, 1..300),
        ) {
            let rate = Rate::new(burst, Duration::from_nanos(interval_ns));
            let (mut bucket, mut now, mut passed) = (TokenBucket::default(), at(0), Vec::new());
            for step in steps {
                now = now + Duration::from_micros(step);
                while bucket.available_at(rate, now) == now {
                    prop_assert_eq!(bucket.take(rate, now), Ok(()));
                    passed.push(now);
                    prop_assert!(passed.len() < 100_000);
                }
                prop_assert!(bucket.take(rate, now).is_err());
            }
            for (index, start) in passed.iter().enumerate() {
                for (count, end) in passed[index..].iter().enumerate() {
                    let elapsed = u64::try_from(end.since(*start).as_nanos()).unwrap();
                    prop_assert!((count as u64) < u64::from(burst) + elapsed / interval_ns);
                }
            }
            // If each token is taken when it is available, none is late by a microsecond or more.
            let (mut bucket, mut now) = (TokenBucket::default(), at(0));
            for number in 0..500_u64 {
                now = bucket.available_at(rate, now);
                prop_assert_eq!(bucket.take(rate, now), Ok(()));
                let due = number.saturating_sub(u64::from(burst) - 1) * interval_ns;
                prop_assert_eq!(now.since(at(0)), Duration::from_micros(due.div_ceil(1_000)));
            }
        }

        #[test]
        fn rate_per_second_round_trips(per_second in 1_u32..=30_000, burst: u32) {
            let rate = Rate::per_second(per_second, burst);
            prop_assert_eq!(rate.tokens_per_second(), per_second);
            prop_assert_eq!(rate.burst(), burst.max(1));
        }

        /// Over any stretch no more pass than the burst and one per interval.
        #[test]
        fn rate_holds_over_any_period(steps in prop::collection::vec(0_u64..15_000, 1..200)) {
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
