//! Estimates how long a queue takes to serve, since when that has been too long, and how long
//! clients wait before they give up.

use std::time::Duration;

use weir_base::clock::Timestamp;

/// The weight of the means: each sample counts for one part in this many. With a smaller number,
/// random variation alone would at times shift the estimate by a third, and overloads begin and
/// end with the estimate.
const WEIGHT: u32 = 64;
/// Above this share of abandoned requests, the remaining clients are expected to give up as well.
const GIVEN_UP_SHARE_MAX: f64 = 0.1;

/// The measured rate of a queue.
#[derive(Debug, Default)]
pub(super) struct Delay {
    /// When a request last left for a slot, or the waiting began.
    last: Timestamp,
    /// The moving average of the time between two requests that leave for a slot. 0: none did yet.
    interval: Duration,
    /// Since when the queue has been too long without a break.
    overlong_since: Option<Timestamp>,
    /// The recent share of requests that left the queue because their clients gave up.
    given_up_share: f64,
    /// The moving average of the time after which clients gave up.
    patience: Duration,
}

impl Delay {
    /// Returns since when the queue, which now has `len` requests, has been too long; see
    /// [`Delay::update`].
    pub(super) fn overlong_since(
        &self,
        len: usize,
        limit: Duration,
        now: Timestamp,
    ) -> Option<Timestamp> {
        self.overlong_since.or_else(|| self.stalled_since(len, limit, now))
    }

    /// Returns how long the queue may take to serve: at most `limit` and, if many clients give up,
    /// half of the time after which they do, so that workers do not spend their time on responses
    /// that no client waits for.
    fn limit(&self, limit: Duration) -> Duration {
        if self.given_up_share > GIVEN_UP_SHARE_MAX { limit.min(self.patience / 2) } else { limit }
    }

    /// Notes that a client gave up after its request had waited for `waited`.
    pub(super) fn record_give_up(&mut self, waited: Duration) {
        self.patience = if self.patience.is_zero() {
            waited
        } else {
            (self.patience * (WEIGHT - 1) + waited) / WEIGHT
        };
        self.given_up_share += (1.0 - self.given_up_share) / f64::from(WEIGHT);
    }

    /// Returns since when the queue has been too long because no request has left it.
    fn stalled_since(&self, len: usize, limit: Duration, now: Timestamp) -> Option<Timestamp> {
        let limit = self.limit(limit);
        let due = self.last + limit.checked_div(u32::try_from(len).ok()?)?;
        (due < now).then_some(due)
    }

    /// Restarts the measurement at `now`.
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.last = now;
        self.overlong_since = None;
    }

    /// Notes that one of `len` requests leaves for a slot.
    pub(super) fn record_departure(&mut self, len: usize, limit: Duration, now: Timestamp) {
        self.update(len, limit, now);
        self.given_up_share -= self.given_up_share / f64::from(WEIGHT);
        let interval = now.since(self.last);
        self.interval = if self.interval.is_zero() {
            interval
        } else {
            (self.interval * (WEIGHT - 1) + interval) / WEIGHT
        };
        self.last = now;
        self.update(len - 1, limit, now);
    }

    /// Updates whether a queue of `len` requests is too long: whether, at the measured rate, the
    /// last of them would wait for longer than `limit` (Little's law).
    pub(super) fn update(&mut self, len: usize, limit: Duration, now: Timestamp) {
        let count = u32::try_from(len).unwrap_or(u32::MAX);
        // Hysteresis: random variation of the estimate must not end an overload.
        let long = self.limit(limit);
        let long = if self.overlong_since.is_some() { long * 3 / 4 } else { long };
        let is_long = self.interval.saturating_mul(count) > long;
        let stalled_since = self.stalled_since(len, limit, now);
        self.overlong_since = if is_long || stalled_since.is_some() {
            self.overlong_since.or(stalled_since).or(Some(now))
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

    /// Ten requests in the queue, one of which leaves every 20 ms, up to 1 s.
    fn steady() -> Delay {
        let mut delay = Delay::default();
        delay.restart(at(0));
        for record_departure in 1..=50 {
            delay.record_departure(10, LIMIT, at(20 * record_departure));
        }
        delay
    }

    #[test]
    fn the_queue_delay_is_its_length_times_the_service_interval() {
        let mut delay = steady();
        delay.update(10, LIMIT, at(1_000));
        assert_eq!(delay.overlong_since(10, LIMIT, at(1_000)), None);
        delay.update(11, LIMIT, at(1_001));
        delay.update(12, LIMIT, at(1_500));
        assert_eq!(delay.overlong_since(12, LIMIT, at(1_500)), Some(at(1_001)), "the first time");
        delay.record_departure(8, LIMIT, at(1_510));
        assert_eq!(delay.overlong_since(7, LIMIT, at(1_510)), Some(at(1_001)), "half a second ago");
        for record_departure in 1..=100 {
            delay.record_departure(7, LIMIT, at(1_510 + 20 * record_departure));
        }
        assert_eq!(delay.overlong_since(6, LIMIT, at(3_510)), None);
    }

    #[test]
    fn a_stalled_queue_counts_as_overlong() {
        let mut delay = steady();
        assert_eq!(delay.overlong_since(1, LIMIT, at(1_200)), None);
        assert_eq!(delay.overlong_since(1, LIMIT, at(1_201)), Some(at(1_200)));
        delay.record_departure(20, LIMIT, at(31_000));
        assert_eq!(
            delay.overlong_since(19, LIMIT, at(31_000)),
            Some(at(1_010)),
            "and is not short at once"
        );
    }

    #[test]
    fn a_queue_is_overlong_at_half_the_clients_patience() {
        let mut delay = steady();
        for _ in 0..6 {
            delay.record_give_up(Duration::from_millis(100));
        }
        delay.update(3, LIMIT, at(1_000));
        assert_eq!(delay.overlong_since(3, LIMIT, at(1_000)), None, "a few are no sign");
        delay.record_give_up(Duration::from_millis(100));
        delay.update(2, LIMIT, at(1_000));
        assert_eq!(delay.overlong_since(2, LIMIT, at(1_000)), None, "40 of 50 ms");
        delay.update(3, LIMIT, at(1_000));
        assert_eq!(delay.overlong_since(3, LIMIT, at(1_000)), Some(at(1_000)), "60 of 50 ms");
        for record_departure in 1..=3 {
            delay.record_departure(
                7 - record_departure,
                LIMIT,
                at(1_000 + 20 * record_departure as u64),
            );
        }
        assert_eq!(delay.overlong_since(3, LIMIT, at(1_060)), None, "requests are served again");
    }

    #[test]
    fn restarting_the_measurement_forgets_the_old_rate() {
        let mut delay = steady();
        for record_departure in 1..=400 {
            delay.record_departure(14, LIMIT, at(1_000 + 10 * record_departure));
        }
        assert_eq!(delay.overlong_since(13, LIMIT, at(5_000)), None);
    }
}
