//! How often jobs may start: `100/s`, or `30/m burst 5`.
//!
//! The rule is that of [`TokenBucket`] (the generic cell rate algorithm): in any period of t seconds, at most
//! the burst and t times the rate start. A burst of more than one makes up for starts that are late because no worker
//! was free, so the rate is reached on average.

use std::fmt;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_base::token_bucket::{Rate, TokenBucket};

/// More than any store starts.
const PER_SECOND_MAX: u64 = 1_000_000;
const COUNT_MAX: u32 = 1_000_000;
const BURST_MAX: u32 = 1_000_000;
/// Time in which a rate makes up for its burst. A bucket is stored as the time at which it is full again, in nanoseconds
/// that end in the year 2554: beyond that, it would never be empty.
const FILLED_AFTER_MAX: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Without a burst of its own, a rate has the burst that it allows in this time: longer than a timer is late.
const BURST_OF: Duration = Duration::from_millis(100);

/// A number of jobs per second, minute, hour or day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartRate {
    count: u32,
    unit: RateUnit,
    burst: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateUnit {
    Second,
    Minute,
    Hour,
    Day,
}

/// The text is no [`StartRate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no rate: write how many jobs may start per s, m, h or d, such as \"100/s\" or \"30/m burst 5\", where up to 5 start at once after a pause (1 to 1,000,000 jobs, at most 1,000,000 a second; a burst of at most what the rate allows in 10 years)"
)]
pub struct StartRateError(String);

/// Longer than any rate.
const TEXT_CHARACTERS_MAX: usize = 64;

impl std::str::FromStr for StartRate {
    type Err = StartRateError;

    fn from_str(text: &str) -> Result<Self, StartRateError> {
        Self::parse(text)
            .ok_or_else(|| StartRateError(text.chars().take(TEXT_CHARACTERS_MAX).collect()))
    }
}

impl fmt::Display for StartRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.count, self.unit.letter())?;
        self.burst.map_or(Ok(()), |burst| write!(formatter, " burst {burst}"))
    }
}

impl StartRate {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let (count, unit) = words.next()?.split_once('/')?;
        let rate = Self {
            count: number(count, COUNT_MAX)?,
            unit: RateUnit::from_letter(unit)?,
            burst: match (words.next(), words.next(), words.next()) {
                (None, ..) => None,
                (Some("burst"), Some(burst), None) => Some(number(burst, BURST_MAX)?),
                _ => return None,
            },
        };
        let is_slow_enough = u64::from(rate.count) <= PER_SECOND_MAX * rate.unit.seconds();
        let filled_after = rate.rate().filled_after();
        (is_slow_enough && filled_after <= FILLED_AFTER_MAX).then_some(rate)
    }

    /// Returns the rate, never faster than it is written.
    #[must_use]
    pub fn rate(self) -> Rate {
        let unit_ns = self.unit.seconds() * 1_000_000_000;
        let interval = Duration::from_nanos(unit_ns.div_ceil(u64::from(self.count)));
        let burst_of = BURST_OF.as_nanos().div_ceil(interval.as_nanos());
        let burst = self.burst.unwrap_or_else(|| u32::try_from(burst_of).unwrap_or(BURST_MAX));
        Rate::new(burst, interval)
    }
}

fn number(text: &str, most: u32) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && (1..=most).contains(number))
}

impl RateUnit {
    const ALL: [Self; 4] = [Self::Second, Self::Minute, Self::Hour, Self::Day];

    fn from_letter(letter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.letter() == letter)
    }

    const fn letter(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "m",
            Self::Hour => "h",
            Self::Day => "d",
        }
    }

    const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }
}

/// The rate of a queue, and what is left of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueRate {
    rate: Option<Rate>,
    bucket: TokenBucket,
    /// Of the last job.
    started_at: Timestamp,
}

impl QueueRate {
    /// Changes the rate. Jobs that started count.
    pub(crate) fn set(&mut self, rate: Option<Rate>) {
        self.rate = rate;
        if let Some(rate) = rate {
            self.bucket.limit_debt(rate, self.started_at);
        }
    }

    /// Begins with the burst, because all jobs were deleted.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self { rate: self.rate, ..Self::default() };
    }

    /// Lets it owe no more starts than the rate allows to owe. Needed if the clock was set back since the last start.
    pub(crate) fn limit_debt(&mut self, now: Timestamp) {
        if let Some(rate) = self.rate {
            self.bucket.limit_debt(rate, now);
        }
    }

    /// Returns when the next job may start, unless one may now.
    pub(crate) fn blocked_until(&self, now: Timestamp) -> Option<Timestamp> {
        let at = self.bucket.available_at(self.rate?, now);
        (at > now).then_some(at)
    }

    /// Counts a job that starts.
    pub(crate) fn start(&mut self, now: Timestamp) {
        if let Some(rate) = self.rate {
            let started = self.bucket.take(rate, now);
            debug_assert!(started.is_ok(), "no job starts while the rate is used up");
            self.started_at = now;
        }
    }

    /// Takes back the start of a job that was not handed out after all. Only right after the start.
    pub(crate) fn take_back(&mut self) {
        if let Some(rate) = self.rate {
            self.bucket.put_back(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_jobs_per_unit_with_a_burst() {
        let rate = |text: &str| {
            let parsed: StartRate = text.parse().unwrap();
            assert_eq!(parsed.to_string(), text);
            parsed.rate()
        };
        let millis = Duration::from_millis;
        assert_eq!(rate("100/s"), Rate::new(10, millis(10)));
        assert_eq!(rate("5/s"), Rate::new(1, millis(200)));
        assert_eq!(rate("5/s burst 3"), Rate::new(3, millis(200)));
        assert_eq!(rate("30/m"), Rate::new(1, millis(2_000)));
        assert_eq!(rate("7200/h burst 1"), Rate::new(1, millis(500)));
        assert_eq!(rate("1/d"), Rate::new(1, millis(86_400_000)));
        assert_eq!(rate("3/s").burst(), 1);
        assert_eq!(rate("1/d burst 3660").burst(), 3_660);
        assert_eq!(rate("1000000/s"), Rate::new(100_000, Duration::from_micros(1)));
        // 3 intervals are not shorter than a second.
        assert_eq!(rate("3/s"), Rate::new(1, Duration::from_nanos(333_333_334)));
    }

    #[test]
    fn other_texts_are_rejected() {
        for text in [
            "",
            "100",
            "/s",
            "100/",
            "0/s",
            "-1/s",
            "+1/s",
            "1.5/s",
            "1/x",
            "1/S",
            "1000001/s",
            "1000001/d",
            "1/d burst 200000",
            "1/d burst 3661",
            "5/d burst 1000000",
            "5/s burst",
            "5/s burst 0",
            "5/s burst 2 3",
            "5/s of 3",
            "5 / s",
        ] {
            assert!(text.parse::<StartRate>().is_err(), "{text}");
        }
        assert_eq!("5/s  burst  2".parse::<StartRate>().unwrap().to_string(), "5/s burst 2");
    }

    #[test]
    fn a_queue_without_a_rate_is_never_blocked() {
        let mut queue = QueueRate::default();
        let now = Timestamp::from_millis(5_000);
        (0..3).for_each(|_| queue.start(now));
        assert_eq!(queue.blocked_until(now), None);
        queue.set(Some(Rate::new(1, Duration::from_secs(1))));
        queue.start(now);
        assert_eq!(queue.blocked_until(now), Some(now + Duration::from_secs(1)));
        queue.take_back();
        assert_eq!(queue.blocked_until(now), None);
        queue.start(now);
        let earlier = Timestamp::from_millis(1_000);
        assert_eq!(queue.blocked_until(earlier), Some(now + Duration::from_secs(1)));
        queue.limit_debt(earlier);
        let until = Some(earlier + Duration::from_secs(1));
        assert_eq!(queue.blocked_until(earlier), until, "the clock was set back");
        queue.set(Some(Rate::new(1, Duration::from_secs(3_600))));
        let later = earlier + Duration::from_secs(1);
        queue.start(later);
        queue.set(Some(Rate::new(1, Duration::from_secs(1))));
        assert_eq!(queue.blocked_until(later + Duration::from_secs(1)), None, "by the new rate");
    }
}
