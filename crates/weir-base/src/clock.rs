//! The only source of time. Rules take a [`Timestamp`]; services take a [`Clock`].

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall-clock time in microseconds since the Unix epoch.
///
/// Microseconds, because a queue's wait is measured with it; 64 bits last for 580,000 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// From microseconds since the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// From milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Seconds since the Unix epoch, with the fraction.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits hold microseconds until the year 2255")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// How much later `self` is than `earlier`; zero when it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Where a service reads the time.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicU64>>);

impl Clock {
    /// The machine's wall clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still until [`Clock::advance`] moves it. Clones share it.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicU64::new(start.as_micros()))))
    }

    /// The time now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the Clock that everybody else takes")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Some(manual) => Timestamp(manual.load(Ordering::SeqCst)),
            None => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX))
            }
        }
    }

    /// Moves a manual clock forward.
    ///
    /// # Panics
    /// Of the system clock, which cannot be set.
    pub fn advance(&self, by: Duration) {
        let manual = self.0.as_ref().expect("only a manual clock can be moved");
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        manual.fetch_add(micros, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_still_until_moved() {
        let clock = Clock::manual(Timestamp::from_millis(5));
        let twin = clock.clone();
        assert_eq!(clock.now(), clock.now());
        clock.advance(Duration::from_secs(1));
        assert_eq!(twin.now(), Timestamp::from_millis(1_005));
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let zero = Timestamp::default();
        assert_eq!(zero - Duration::from_secs(1), zero);
        assert_eq!(zero.since(Timestamp::from_millis(9)), Duration::ZERO);
        let end = Timestamp::from_micros(u64::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
    }
}
