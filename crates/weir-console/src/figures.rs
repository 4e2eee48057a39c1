//! The format of figures: the same everywhere, short enough for a table, exact in a tooltip.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a `usize` like [`count`].
pub(crate) fn number(number: usize) -> String {
    count(number as u64)
}

/// Formats a count with its noun: `1 job`, `2 jobs`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// Formats a rate per second: `0/s`, `0.04/s`, `7.3/s`, `1,234/s`.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate.is_nan() => "–".to_owned(),
        rate if rate < 0.005 => "0/s".to_owned(),
        rate if rate < 1.0 => format!("{rate:.2}/s"),
        rate if rate < 99.95 => format!("{rate:.1}/s"),
        rate => format!("{}/s", count(round(rate))),
    }
}

/// Formats a duration in its two largest units: `4 ms`, `2.3 s`, `5 min 3 s`, `14 h 2 min`, `3 d 4
/// h`.
pub(crate) fn duration(seconds: f64) -> String {
    const UNITS: [(u64, &str, u64, &str); 3] =
        [(86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")];
    if seconds.is_nan() || seconds <= 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 0.000_95 {
        return format!("{} µs", round(seconds * 1e6).max(1));
    }
    if seconds < 0.999_5 {
        return format!("{} ms", round(seconds * 1e3));
    }
    if seconds < 9.95 {
        return format!("{seconds:.1} s");
    }
    let total = round(seconds);
    for (unit, name, part, part_name) in UNITS {
        if total >= unit {
            let (units, parts) = (total / unit, total % unit / part);
            let rest = if parts == 0 { String::new() } else { format!(" {parts} {part_name}") };
            return format!("{} {name}{rest}", count(units));
        }
    }
    format!("{total} s")
}

/// Formats bytes in binary units: `512 B`, `1.5 KiB`, `3.2 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = as_float(bytes) / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Formats a `usize` like [`bytes`].
pub(crate) fn size(size: usize) -> String {
    bytes(size as u64)
}

/// Formats a share between 0 and 1 as whole percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", round(share * 100.0))
}

/// Formats the distance between two times (seconds since the Unix epoch): `3 min 2 s ago`, `in 5
/// s`.
pub(crate) fn relative(now: f64, time: f64) -> String {
    let gap = now - time;
    if gap.abs() < 0.5 {
        "now".to_owned()
    } else if gap > 0.0 {
        format!("{} ago", whole_duration(gap))
    } else {
        format!("in {}", whole_duration(-gap))
    }
}

/// Formats a duration in whole seconds, for values that change on screen: `3 s`, `2 min 5 s`.
pub(crate) fn whole_duration(seconds: f64) -> String {
    match round(seconds) {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds => duration(as_float(seconds)),
    }
}

/// Returns the duration; zero if it is negative or no number.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Formats a time (seconds since the Unix epoch) in UTC: `2026-11-20 19:41:31`.
pub(crate) fn moment(time: f64) -> String {
    zoned(time)
        .map_or_else(|| "–".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Formats a time for `<time datetime>`: `2026-11-20T19:41:31Z`.
pub(crate) fn machine_moment(time: f64) -> String {
    zoned(time).map_or_else(String::new, |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn zoned(time: f64) -> Option<jiff::Zoned> {
    let seconds = i64::try_from(round(time)).ok()?;
    Timestamp::from_second(seconds).ok().map(|time| time.to_zoned(TimeZone::UTC))
}

/// Rounds to the nearest whole number; 0 for negative values and NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates at both ends, which is what a figure needs"
)]
pub(crate) const fn round(value: f64) -> u64 {
    value.round() as u64
}

/// Converts to the nearest float.
#[expect(clippy::cast_precision_loss, reason = "figures are read by people and charts")]
pub(crate) const fn as_float(value: u64) -> f64 {
    value as f64
}

/// Truncates a long text to `characters_max` characters and an ellipsis.
pub(crate) fn shortened(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        Some((index, _)) => format!("{}…", &text[..index]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_thousands_separators() {
        let texts = [0, 7, 999, 1_000, 12_345, 200_000, u64::MAX].map(count);
        assert_eq!(
            texts,
            ["0", "7", "999", "1,000", "12,345", "200,000", "18,446,744,073,709,551,615"]
        );
    }

    #[test]
    fn durations_have_two_units() {
        let cases = [
            (0.0, "0 s"),
            (f64::NAN, "0 s"),
            (-4.0, "0 s"),
            (0.000_3, "300 µs"),
            (0.004, "4 ms"),
            (0.999_9, "1.0 s"),
            (2.34, "2.3 s"),
            (9.96, "10 s"),
            (59.6, "1 min"),
            (63.0, "1 min 3 s"),
            (50_400.0, "14 h"),
            (50_520.0, "14 h 2 min"),
            (273_600.0, "3 d 4 h"),
        ];
        for (seconds, text) in cases {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn rates_are_readable_at_any_size() {
        let cases = [
            (0.0, "0/s"),
            (0.04, "0.04/s"),
            (7.32, "7.3/s"),
            (99.96, "100/s"),
            (1_234.4, "1,234/s"),
            (f64::NAN, "–"),
        ];
        for (per_second, text) in cases {
            assert_eq!(rate(per_second), text, "{per_second}");
        }
    }

    #[test]
    fn bytes_have_binary_units() {
        let cases = [(0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (1 << 20, "1.0 MiB")];
        for (number, text) in cases {
            assert_eq!(bytes(number), text, "{number}");
        }
    }

    #[test]
    fn relative_times_are_past_and_future() {
        assert_eq!(moment(1_700_000_000.4), "2023-11-14 22:13:20");
        assert_eq!(machine_moment(1_700_000_000.0), "2023-11-14T22:13:20Z");
        assert_eq!(moment(f64::INFINITY), "–");
        assert_eq!(relative(100.0, 37.0), "1 min 3 s ago");
        assert_eq!(relative(100.0, 105.0), "in 5 s");
        assert_eq!(relative(100.0, 100.2), "now");
    }

    #[test]
    fn truncation_never_splits_a_character() {
        assert_eq!(shortened("äöü", 2), "äö…");
        assert_eq!(shortened("äöü", 3), "äöü");
    }
}
