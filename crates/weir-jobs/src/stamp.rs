//! Times as the protocol writes them: RFC 3339, UTC, six digits of fraction.
//!
//! The text always has [`STAMP_BYTES`] bytes, so what was written can be found again by its length.

use jiff::tz::Offset;
use weir_base::clock::Timestamp;

/// Bytes of `2026-11-20T19:28:22.123456Z`.
pub(crate) const STAMP_BYTES: usize = 27;

const MICROS_PER_SECOND: u64 = 1_000_000;
const FRACTION: std::ops::Range<usize> = 20..26;

/// Formats times; the text up to the second is kept, so that the next time within it costs a few
/// nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Stamps {
    second: u64,
    text: [u8; STAMP_BYTES],
}

impl Default for Stamps {
    fn default() -> Self {
        Self { second: 0, text: *b"1970-01-01T00:00:00.000000Z" }
    }
}

impl Stamps {
    /// The text of `time`. Times behind the year 9999 are shown as its end.
    pub(crate) fn format(&mut self, time: Timestamp) -> &[u8; STAMP_BYTES] {
        let second = time.as_micros() / MICROS_PER_SECOND;
        if second != self.second {
            self.second = second;
            self.write_second();
        }
        write_digits(&mut self.text[FRACTION], time.as_micros() % MICROS_PER_SECOND);
        &self.text
    }

    fn write_second(&mut self) {
        let at = i64::try_from(self.second).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
        let civil = Offset::UTC.to_datetime(at.unwrap_or(jiff::Timestamp::MAX));
        let text = &mut self.text;
        write_digits(&mut text[0..4], u64::from(civil.year().unsigned_abs()));
        write_digits(&mut text[5..7], u64::from(civil.month().unsigned_abs()));
        write_digits(&mut text[8..10], u64::from(civil.day().unsigned_abs()));
        write_digits(&mut text[11..13], u64::from(civil.hour().unsigned_abs()));
        write_digits(&mut text[14..16], u64::from(civil.minute().unsigned_abs()));
        write_digits(&mut text[17..19], u64::from(civil.second().unsigned_abs()));
    }
}

/// `value` in decimal, right-aligned with zeros before it.
fn write_digits(target: &mut [u8], mut value: u64) {
    for digit in target.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

/// The text of one time, for where there is no [`Stamps`] at hand.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    String::from_utf8_lossy(Stamps::default().format(time)).into_owned()
}

/// Reads an RFC 3339 time with any offset. Times before 1970 count as 1970.
pub(crate) fn parse_rfc3339(text: &str) -> Result<Timestamp, jiff::Error> {
    let parsed: jiff::Timestamp = text.parse()?;
    Ok(Timestamp::from_micros(u64::try_from(parsed.as_microsecond()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_with_its_microseconds() {
        let check = |micros: u64, expected: &str| {
            let time = Timestamp::from_micros(micros);
            assert_eq!(rfc3339(time), expected);
            assert_eq!(parse_rfc3339(expected).unwrap(), time);
        };
        check(0, "1970-01-01T00:00:00.000000Z");
        check(1_795_202_902_123_456, "2026-11-20T19:28:22.123456Z");
        check(951_827_696_000_001, "2000-02-29T12:34:56.000001Z");
    }

    #[test]
    fn the_kept_second_is_left_when_time_moves_on_or_back() {
        let mut stamps = Stamps::default();
        for micros in [5_000_001, 5_000_002, 6_000_000, 5_999_999, 0] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(stamps.format(time), rfc3339(time).as_bytes());
        }
    }

    #[test]
    fn a_time_behind_the_calendar_is_shown_as_its_end() {
        assert!(rfc3339(Timestamp::from_micros(u64::MAX)).starts_with("9999-12-30T22:00:00."));
    }

    #[test]
    fn offsets_and_fractions_are_read() {
        let check = |text: &str, seconds: u64| {
            assert_eq!(parse_rfc3339(text).unwrap(), Timestamp::from_millis(seconds * 1_000));
        };
        check("1970-01-01T01:00:00+01:00", 0);
        check("1970-01-01T00:00:05.000000000Z", 5);
        check("1969-12-31T00:00:00Z", 0);
        assert!(parse_rfc3339("tomorrow").is_err());
        assert!(parse_rfc3339("2026-11-20T19:28:22").is_err());
    }
}
