//! How long a queue is in time, and since when that is too long.

use std::time::Duration;

use weir_base::clock::Timestamp;

/// One request in so many counts for the mean.
const WEIGHT: u32 = 16;

/// What a queue knows of its pace.
#[derive(Debug, Default)]
pub(super) struct Delay {
    /// When the last one left for a slot, or the queue began.
    last: Timestamp,
    /// The mean time between two that leave for a slot, of late; none did yet: 0.
    interval: Duration,
    /// Since when it has been too long, without a break.
    long_since: Option<Timestamp>,
}

impl Delay {
    /// Since when the queue, now of `len`, has been too long; see [`Delay::judge`].
    pub(super) fn long_since(
        &self,
        len: usize,
        limit: Duration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        self.long_since.or_else(|| self.standing_since(len, limit, now))
    }

    /// A queue that nobody leaves becomes too long by itself: since when.
    fn standing_since(&self, len: usize, limit: Duration, now: Timestamp) -> Option<Timestamp> {
        let due = self.last + limit.checked_div(u32::try_from(len).ok()?)?;
        (due < now).then_some(due)
    }

    /// The waiting begins now.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.last = now;
        self.long_since = None;
    }

    /// One of `len` leaves for a slot.
    pub(super) fn step(&mut self, len: usize, limit: Duration, now: Timestamp) {
        self.judge(len, limit, now);
        let interval = now.since(self.last);
        self.interval = if self.interval.is_zero() {
            interval
        } else {
            (self.interval * (WEIGHT - 1) + interval) / WEIGHT
        };
        self.last = now;
        self.judge(len - 1, limit, now);
    }

    /// Whether a queue of `len` is too long: served one after the other at its pace, the last one
    /// would wait for longer than `limit` (Little's law).
    pub(super) fn judge(&mut self, len: usize, limit: Duration, now: Timestamp) {
        let count = u32::try_from(len).unwrap_or(u32::MAX);
        let is_long = self.interval.saturating_mul(count) > limit;
        let standing_since = self.standing_since(len, limit, now);
        self.long_since = if is_long || standing_since.is_some() {
            self.long_since.or(standing_since).or(Some(now))
        } else {
            None
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    const LIMIT: Duration = Duration::from_millis(200);

    /// One of ten left every 20 ms, up to 1 s.
    fn steady() -> Delay {
        let mut delay = Delay::default();
        delay.restart(at(0));
        for step in 1..=50 {
            delay.step(10, LIMIT, at(20 * step));
        }
        delay
    }

    #[test]
    fn a_queue_is_as_long_as_it_takes_to_serve_it() {
        let mut delay = steady();
        delay.judge(10, LIMIT, at(1_000));
        assert_eq!(delay.long_since(10, LIMIT, at(1_000)), None);
        delay.judge(11, LIMIT, at(1_001));
        delay.judge(12, LIMIT, at(1_500));
        assert_eq!(delay.long_since(12, LIMIT, at(1_500)), Some(at(1_001)), "the first time");
        delay.step(8, LIMIT, at(1_510));
        assert_eq!(delay.long_since(7, LIMIT, at(1_510)), Some(at(1_001)), "half a second ago");
        for step in 1..=40 {
            delay.step(8, LIMIT, at(1_510 + 20 * step));
        }
        assert_eq!(delay.long_since(7, LIMIT, at(2_310)), None);
    }

    #[test]
    fn a_queue_that_stands_still_becomes_long() {
        let mut delay = steady();
        assert_eq!(delay.long_since(1, LIMIT, at(1_200)), None);
        assert_eq!(delay.long_since(1, LIMIT, at(1_201)), Some(at(1_200)));
        delay.step(20, LIMIT, at(31_000));
        assert_eq!(
            delay.long_since(19, LIMIT, at(31_000)),
            Some(at(1_010)),
            "and is not short at once"
        );
    }

    #[test]
    fn the_pace_of_before_is_forgotten() {
        let mut delay = steady();
        for step in 1..=100 {
            delay.step(19, LIMIT, at(1_000 + 10 * step));
        }
        assert_eq!(delay.long_since(18, LIMIT, at(2_000)), None);
    }
}
