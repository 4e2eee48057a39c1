//! Durations (`"10ms"`, `"2s"`, `"5m"`, `"3h"`, `"180d"`) and sizes (`"64MiB"`, `"16MB"`, plain
//! bytes), read and written.

use std::time::Duration;

pub const MILLISECOND: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const HOUR: Duration = Duration::from_secs(60 * 60);
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Unit and nanoseconds, largest first.
const DURATIONS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Unit and bytes, largest first; the binary ones come first, so that defaults are written in them.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Reads a duration; the error says how to write one.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let how = || {
        format!(
            "{text:?} is not a duration; write a whole number and ms, s, m, h or d, for example \"10s\""
        )
    };
    let (number, unit) = split(text).ok_or_else(how)?;
    let (_, nanoseconds) = DURATIONS.iter().find(|(name, _)| *name == unit).ok_or_else(how)?;
    let total = number.checked_mul(*nanoseconds).ok_or_else(|| format!("{text:?} is too long"))?;
    Ok(Duration::from_nanos(total))
}

/// Writes a duration in the largest unit that needs no fraction.
pub fn format_duration(duration: Duration) -> String {
    let total = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    format_in(total, &DURATIONS).unwrap_or_else(|| "0s".to_owned())
}

/// Reads a size; the error says how to write one.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let how = || {
        format!(
            "{text:?} is not a size; write bytes or a whole number and KiB, MiB, GiB, kB, MB or GB, for example \"64MiB\""
        )
    };
    if let Ok(bytes) = text.parse() {
        return Ok(bytes);
    }
    let (number, unit) = split(text).ok_or_else(how)?;
    let (_, bytes) = SIZES.iter().find(|(name, _)| *name == unit).ok_or_else(how)?;
    number.checked_mul(*bytes).ok_or_else(|| format!("{text:?} is too large"))
}

/// Writes a size in the largest unit that needs no fraction, above 1,000 bytes.
pub fn format_size(bytes: u64) -> String {
    let of_units = if bytes < 1_000 { None } else { format_in(bytes, &SIZES) };
    of_units.unwrap_or_else(|| format!("{bytes}B"))
}

/// Says roughly how much, for people: `16 GiB`.
pub fn about_size(bytes: u64) -> String {
    let unit = SIZES[..4].iter().find(|(_, size)| bytes >= *size);
    unit.map_or_else(|| format!("{bytes} B"), |(unit, size)| format!("{} {unit}", bytes / size))
}

fn format_in(total: u64, units: &[(&str, u64)]) -> Option<String> {
    let (unit, size) = units.iter().find(|(_, size)| total > 0 && total.is_multiple_of(*size))?;
    Some(format!("{}{unit}", total / size))
}

/// `10ms` -> (10, "ms"); a space between is allowed.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read() {
        for (text, milliseconds) in [
            ("10ms", 10),
            ("2s", 2_000),
            ("5m", 300_000),
            ("3h", 10_800_000),
            ("180d", 15_552_000_000),
            ("1 s", 1_000),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "10", "1.5s", "-1s", "10 parsecs", "99999999999999999999s", "1s "] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("999999999999d"), Err("\"999999999999d\" is too long".into()));
    }

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("64MiB", 64 << 20),
            ("16MB", 16_000_000),
            ("512", 512),
            ("1 KiB", 1 << 10),
            ("1kB", 1_000),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "1.5GiB", "-1", "10mib", "99999999999999TiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn formatted_units_are_short() {
        assert_eq!(format_duration(Duration::from_secs(90)), "90s");
        assert_eq!(format_duration(Duration::from_secs(180 * 86_400)), "180d");
        assert_eq!(format_size(16 << 20), "16MiB");
        assert_eq!(format_size(255), "255B");
        assert_eq!(about_size((16 << 30) + 5), "16 GiB");
        assert_eq!(about_size(255), "255 B");
    }

    proptest! {
        #[test]
        fn formatted_units_can_be_parsed(total: u64) {
            let duration = Duration::from_nanos(total);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            prop_assert_eq!(parse_size(&format_size(total)), Ok(total));
        }

        #[test]
        fn no_text_panics(text in ".{0,30}") {
            let _ = (parse_duration(&text), parse_size(&text));
        }
    }
}
