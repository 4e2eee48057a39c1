//! What a rate in Redis allows now.
//!
//! The rule is that of [`weir_base::token_bucket`]. Stored are the time at which the bucket is full again
//! and that of the last start, by Redis' clock; read are their distances from now.

use std::time::Duration;

use redis::Value;
use weir_base::token_bucket::Rate;

/// What a rate owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RateReading {
    /// Microseconds until the bucket is full.
    full_in_us: i64,
    /// Negative if the clock was set back.
    started_ago_us: i64,
}

/// When jobs may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Starts {
    /// So many now.
    Now(u64),
    /// None before this time has passed.
    After(Duration),
}

impl RateReading {
    /// Parses `"500 200"`.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        let Value::BulkString(text) = value else { return None };
        let (full_in, started_ago) = std::str::from_utf8(text).ok()?.split_once(' ')?;
        let (full_in_us, started_ago_us) = (full_in.parse().ok()?, started_ago.parse().ok()?);
        Some(Self { full_in_us, started_ago_us })
    }
}

impl Starts {
    /// Returns what a rate allows. The script that counts starts decides in the same way.
    pub(super) fn of(rate: Rate, reading: Option<RateReading>) -> Self {
        let interval_ns = i128::try_from(rate.interval().as_nanos()).unwrap_or(i128::MAX).max(1);
        let capacity_ns = interval_ns * i128::from(rate.burst());
        let owed_ns = match reading {
            None => 0,
            // The script corrects what is stored.
            Some(RateReading { started_ago_us: ..0, .. }) => return Self::Now(1),
            Some(RateReading { full_in_us, started_ago_us }) => {
                // It may have been stored under another rate.
                let most = capacity_ns - i128::from(started_ago_us) * 1_000;
                (i128::from(full_in_us) * 1_000).min(most).max(0)
            }
        };
        let left_ns = capacity_ns - owed_ns;
        match u64::try_from(left_ns / interval_ns) {
            Ok(0) | Err(_) => {
                let wait_us = (interval_ns - left_ns).unsigned_abs().div_ceil(1_000);
                Self::After(Duration::from_micros(u64::try_from(wait_us).unwrap_or(u64::MAX)))
            }
            Ok(starts) => Self::Now(starts),
        }
    }

    pub(super) const fn wait(self) -> Option<Duration> {
        match self {
            Self::Now(_) => None,
            Self::After(wait) => Some(wait),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(rate: Rate, text: &str) -> Starts {
        Starts::of(rate, RateReading::parse(&Value::BulkString(text.as_bytes().to_vec())))
    }

    #[test]
    fn what_a_rate_owes_decides_how_many_start() {
        let rate = Rate::new(3, Duration::from_secs(1));
        let after = |millis| Starts::After(Duration::from_millis(millis));
        assert_eq!(starts(rate, ""), Starts::Now(3));
        assert_eq!(starts(rate, "-5000000 8000000"), Starts::Now(3));
        assert_eq!(starts(rate, "1000000 0"), Starts::Now(2));
        assert_eq!(starts(rate, "1000001 0"), Starts::Now(1));
        assert_eq!(starts(rate, "3000000 0"), after(1_000));
        assert_eq!(starts(rate, "2500000 500000"), after(500));
        assert_eq!(
            starts(rate, "3600000000 400000"),
            after(600),
            "it was stored under a slow rate"
        );
        assert_eq!(starts(rate, "3600000000 -5"), Starts::Now(1), "the clock was set back");
    }
}
