//! The only source of time. Rules take a [`Timestamp`]; services take a [`Clock`].

use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Wall-clock time in microseconds since the Unix epoch.
///
/// Microseconds are needed to measure the latency of queues; 64 bits last for 580,000 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Creates a timestamp from milliseconds since the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Returns the microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the whole milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the seconds since the Unix epoch, with the fraction.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits hold microseconds until the year 2255")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
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

/// A source of time.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicU64>>);

impl Clock {
    /// Returns the system's wall clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// Creates a clock that only [`Clock::advance`] and [`Clock::set_back`] change. Clones share it.
    #[must_use]
    pub fn manual(start: Timestamp) -> Self {
        Self(Some(Arc::new(AtomicU64::new(start.as_micros()))))
    }

    /// Returns whether it is a manual clock.
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the current time.
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
    /// For the system clock, which cannot be set.
    pub fn advance(&self, by: Duration) {
        let manual = self.0.as_ref().expect("only a manual clock can be moved");
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        manual.fetch_add(micros, Ordering::SeqCst);
    }

    /// Sets a manual clock back, as happens to the system's.
    ///
    /// # Panics
    /// For the system clock, which cannot be set.
    pub fn set_back(&self, by: Duration) {
        let manual = self.0.as_ref().expect("only a manual clock can be moved");
        manual.store((self.now() - by).0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_only_advances_explicitly() {
        let clock = Clock::manual(Timestamp::from_millis(5));
        let twin = clock.clone();
        assert_eq!(clock.now(), clock.now());
        clock.advance(Duration::from_secs(1));
        assert_eq!(twin.now(), Timestamp::from_millis(1_005));
    }

    #[test]
    fn timestamp_arithmetic_saturates() {
        let zero = Timestamp::default();
        assert_eq!(zero - Duration::from_secs(1), zero);
        assert_eq!(zero.since(Timestamp::from_millis(9)), Duration::ZERO);
        let end = Timestamp::from_micros(u64::MAX);
        assert_eq!(end + Duration::from_secs(1), end);
    }
}
