//! Formats and parses times as the protocol writes them: RFC 3339, UTC, six digits of fraction.
//!
//! The text always has [`STAMP_BYTES`] bytes, so it can be located by its length.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use weir_base::clock::Timestamp;

/// Bytes of `2026-11-20T19:28:22.123456Z`.
pub(crate) const STAMP_BYTES: usize = 27;

const MICROS_PER_SECOND: u64 = 1_000_000;
const FRACTION: std::ops::Range<usize> = 20..26;
/// The part of a time before its fraction and its offset; each 0 represents any digit.
const DATE_TIME: &str = "0000-00-00T00:00:00";

/// Formats times. It caches the text up to the second, so that another time in the same second
/// costs a few nanoseconds.
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
    /// Formats `time`. Times after the year 9999 are formatted as its last second.
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

/// Writes `value` in decimal, right-aligned and padded with zeros.
fn write_digits(target: &mut [u8], mut value: u64) {
    for digit in target.iter_mut().rev() {
        *digit = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

/// Formats one time, for callers without a [`Stamps`].
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    String::from_utf8_lossy(Stamps::default().format(time)).into_owned()
}

/// Parses an RFC 3339 time with any offset. Returns `None` for any other text.
#[must_use]
pub fn parse(text: &str) -> Option<Timestamp> {
    parse_rfc3339(text).ok()
}

/// Why a text is not a valid time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTime {
    #[error("it must look like 2026-11-20T19:28:22Z or 2026-11-20T19:28:22.5+01:00")]
    Shape,
    #[error("there is no such day, or no such time of day")]
    Calendar,
}

/// Parses an RFC 3339 time with any offset, as strictly as Faktory does, because workers receive
/// the same text and parse it themselves. Times before 1970 become 1970.
pub(crate) fn parse_rfc3339(text: &str) -> Result<Timestamp, NoTime> {
    let (date_time, rest) = text.split_at_checked(DATE_TIME.len()).ok_or(NoTime::Shape)?;
    if !has_shape(date_time, DATE_TIME) {
        return Err(NoTime::Shape);
    }
    let (fraction, zone) = parse_fraction(rest)?;
    let offset = parse_offset(zone)?;
    // The calendar's parser would accept a leap second as the second before it.
    if date_time.ends_with(":60") {
        return Err(NoTime::Calendar);
    }
    // Parses without a zone, because a zoned time ends before the last second of the year 9999.
    let date_time: DateTime = date_time.parse().map_err(|_| NoTime::Calendar)?;
    let since_1970 = date_time.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    let micros = (since_1970 + fraction - offset).as_micros();
    Ok(Timestamp::from_micros(u64::try_from(micros).unwrap_or(0)))
}

/// Parses the digits after a point or a comma. Returns the fraction and the rest of the text.
fn parse_fraction(text: &str) -> Result<(SignedDuration, &str), NoTime> {
    let Some(digits) = text.strip_prefix(['.', ',']) else {
        return Ok((SignedDuration::ZERO, text));
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (digits, zone) = digits.split_at(end);
    if digits.is_empty() {
        return Err(NoTime::Shape);
    }
    let six = digits.bytes().chain(std::iter::repeat(b'0')).take(FRACTION.len());
    let micros = six.fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0'));
    Ok((SignedDuration::from_micros(micros), zone))
}

/// Parses `Z` or an offset such as `+01:00`. Returns how far that clock is ahead of UTC.
fn parse_offset(zone: &str) -> Result<SignedDuration, NoTime> {
    if zone == "Z" {
        return Ok(SignedDuration::ZERO);
    }
    let sign = match zone.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return Err(NoTime::Shape),
    };
    if !has_shape(&zone[1..], "00:00") {
        return Err(NoTime::Shape);
    }
    // The shape guarantees two digits each.
    let part = |digits: &str| digits.parse::<i64>().map_err(|_| NoTime::Shape);
    let (hours, minutes) = (part(&zone[1..3])?, part(&zone[4..6])?);
    if hours > 24 || minutes > 59 {
        return Err(NoTime::Calendar);
    }
    Ok(SignedDuration::from_mins(sign * (hours * 60 + minutes)))
}

/// Returns whether `text` equals `shape`, where a 0 in `shape` matches any digit.
fn has_shape(text: &str, shape: &str) -> bool {
    let fits = |(byte, shape): (u8, u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        _ => byte == shape,
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
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
        let check = |text: &str, micros: u64| {
            assert_eq!(parse_rfc3339(text), Ok(Timestamp::from_micros(micros)), "{text}");
        };
        check("1970-01-01T01:00:00+01:00", 0);
        check("1970-01-01T00:00:00-11:30", 41_400_000_000);
        check("1970-01-01T00:00:05.000000000Z", 5_000_000);
        check("1970-01-01T00:00:05.1234567891Z", 5_123_456);
        check("1970-01-01T00:00:05,5Z", 5_500_000);
        check("1970-01-01T00:00:00.5+00:00", 500_000);
        check("1969-12-31T00:00:00Z", 0);
        check("0000-01-01T00:00:00Z", 0);
        check("2000-02-29T12:34:56Z", 951_827_696_000_000);
        check("9999-12-31T23:59:59.9999999Z", 253_402_300_799_999_999);
    }

    #[test]
    fn other_forms_are_no_times() {
        let check = |text: &str, error| assert_eq!(parse_rfc3339(text), Err(error), "{text}");
        let forms = "tomorrow,2026-11-20,2026-11-20T19:28:22,2026-11-20T19:28Z,20261120T192822Z,\
            2026-11-20T19:28:22+0100,2026-11-20T19:28:22.Z,2026-11-20T19:28:22Z[UTC],\
            2026-11-20t19:28:22z,2026-11-20 19:28:22Z,+002026-11-20T19:28:22Z,2026-1-1T0:0:0Z,\
            2026-11-20T19:28:22\u{e9}01:00,2026-11-20T19:28:22+,\u{e9}026-11-20T19:28:2Z, ";
        forms.split(',').for_each(|text| check(text, NoTime::Shape));
        let days = "2026-13-01T00:00:00Z,2026-02-29T00:00:00Z,2026-01-01T24:00:00Z,\
            2026-12-31T23:59:60Z,\
            2026-01-01T00:00:00+25:00,2026-01-01T00:00:00+00:60";
        days.split(',').for_each(|text| check(text, NoTime::Calendar));
    }
}
