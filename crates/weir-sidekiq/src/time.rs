//! Parses Sidekiq's timestamps: fractional seconds up to version 7, whole milliseconds since
//! version 8.

use serde::{Deserialize, Deserializer};
use weir_base::clock::Timestamp;

/// Larger numbers are milliseconds. In seconds this is the year 5138, in milliseconds 1973.
const MILLISECONDS_FROM: f64 = 1e11;
/// The last second of the year 9999. Later times are invalid.
const SECONDS_MAX: f64 = 253_402_300_799.0;

/// Converts `number` to a time, or returns `None` if it cannot be one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and the year 9999 in microseconds, which 64 bits hold"
)]
pub(crate) fn timestamp(number: f64) -> Option<Timestamp> {
    let seconds = if number > MILLISECONDS_FROM { number / 1e3 } else { number };
    let sane = (0.0..=SECONDS_MAX).contains(&seconds);
    sane.then(|| Timestamp::from_micros((seconds * 1e6).round() as u64))
}

/// Parses a time from text.
pub(crate) fn from_text(text: &str) -> Option<Timestamp> {
    timestamp(text.parse().ok()?)
}

/// Deserializes a time. Missing or invalid times become `None`, so the rest of the object remains
/// usable.
pub(crate) fn deserialize<'de, D>(deserializer: D) -> Result<Option<Timestamp>, D::Error>
where
    D: Deserializer<'de>,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(value.as_f64().and_then(timestamp))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_milliseconds_are_told_apart_per_value() {
        let at = Timestamp::from_micros(1_763_792_000_123_000);
        assert_eq!(timestamp(1_763_792_000.123), Some(at));
        assert_eq!(timestamp(1_763_792_000_123.0), Some(at));
        assert_eq!(from_text("1763792000.123"), Some(at));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for odd in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(timestamp(odd), None, "{odd}");
        }
        assert_eq!(from_text("soon"), None);
    }
}
