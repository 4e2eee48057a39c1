//! How long a queue is in time, since when that is too long, and how long its clients wait before they
//! give up.

use std::time::Duration;

use weir_base::clock::Timestamp;

/// One request in so many counts for the means: with fewer, chance alone makes a queue seem a third
/// shorter or longer than it is once in a while (an overload begins and ends with the estimate).
const WEIGHT: u32 = 64;
/// If more than this share of requests gave up, the others' clients are expected to do the same.
const GIVEN_UP_SHARE_MAX: f64 = 0.1;

/// What a queue knows of its pace.
#[derive(Debug, Default)]
pub(super) struct Delay {
    /// When the last one left for a slot, or the queue began.
    last: Timestamp,
    /// The mean time between two that leave for a slot, of late; none did yet: 0.
    interval: Duration,
    /// Since when it has been too long, without a break.
    long_since: Option<Timestamp>,
    /// The share of requests that gave up, of those that left the queue recently.
    given_up_share: f64,
    /// The mean time after which they did.
    patience: Duration,
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

    /// How long the queue may be in time: at most `limit`, and half of the time after which clients
    /// give up, so that a worker does not spend its time on responses that no client waits for.
    fn limit(&self, limit: Duration) -> Duration {
        if self.given_up_share > GIVEN_UP_SHARE_MAX { limit.min(self.patience / 2) } else { limit }
    }

    /// One gave up after it had waited for `waited`.
    pub(super) fn give_up(&mut self, waited: Duration) {
        self.patience = if self.patience.is_zero() {
            waited
        } else {
            (self.patience * (WEIGHT - 1) + waited) / WEIGHT
        };
        self.given_up_share += (1.0 - self.given_up_share) / f64::from(WEIGHT);
    }

    /// Since when the queue would have been too long if no client had given up.
    fn standing_since(&self, len: usize, limit: Duration, now: Timestamp) -> Option<Timestamp> {
        let limit = self.limit(limit);
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
        self.given_up_share -= self.given_up_share / f64::from(WEIGHT);
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
        // The estimate varies by chance; an overload must not end with it.
        let long = self.limit(limit);
        let long = if self.long_since.is_some() { long * 3 / 4 } else { long };
        let is_long = self.interval.saturating_mul(count) > long;
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
        for step in 1..=100 {
            delay.step(7, LIMIT, at(1_510 + 20 * step));
        }
        assert_eq!(delay.long_since(6, LIMIT, at(3_510)), None);
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
    fn a_queue_is_too_long_at_half_the_time_after_which_clients_give_up() {
        let mut delay = steady();
        for _ in 0..6 {
            delay.give_up(Duration::from_millis(100));
        }
        delay.judge(3, LIMIT, at(1_000));
        assert_eq!(delay.long_since(3, LIMIT, at(1_000)), None, "a few are no sign");
        delay.give_up(Duration::from_millis(100));
        delay.judge(2, LIMIT, at(1_000));
        assert_eq!(delay.long_since(2, LIMIT, at(1_000)), None, "40 of 50 ms");
        delay.judge(3, LIMIT, at(1_000));
        assert_eq!(delay.long_since(3, LIMIT, at(1_000)), Some(at(1_000)), "60 of 50 ms");
        for step in 1..=3 {
            delay.step(7 - step, LIMIT, at(1_000 + 20 * step as u64));
        }
        assert_eq!(delay.long_since(3, LIMIT, at(1_060)), None, "requests are served again");
    }

    #[test]
    fn the_pace_of_before_is_forgotten() {
        let mut delay = steady();
        for step in 1..=400 {
            delay.step(14, LIMIT, at(1_000 + 10 * step));
        }
        assert_eq!(delay.long_since(13, LIMIT, at(5_000)), None);
    }
}
