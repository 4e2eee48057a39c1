//! Parses `Range: bytes=..` (RFC 9110, 14.2), one range only.

use std::ops::Range;

/// The part of a representation that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    Part(Range<u64>),
    /// The range begins after the end: respond with 416.
    Nothing,
}

/// Parses the header `value` for a representation of `length` bytes. An invalid header, or one with
/// several ranges, selects everything.
pub(super) fn wanted(value: Option<&str>, length: u64) -> Wanted {
    let Some(range) = value.and_then(|value| value.trim_ascii().strip_prefix("bytes=")) else {
        return Wanted::All;
    };
    let Some((first, last)) = range.split_once('-') else { return Wanted::All };
    match (number(first), number(last)) {
        (Some(Some(first)), Some(last)) => from(first, last, length),
        (Some(None), Some(Some(suffix))) => match suffix.min(length) {
            0 => Wanted::Nothing,
            suffix => Wanted::Part(length - suffix..length),
        },
        _ => Wanted::All,
    }
}

fn from(first: u64, last: Option<u64>, length: u64) -> Wanted {
    if last.is_some_and(|last| last < first) {
        return Wanted::All;
    }
    let end = last.map_or(length, |last| last.saturating_add(1).min(length));
    match first < length {
        true => Wanted::Part(first..end),
        false => Wanted::Nothing,
    }
}

/// Parses a number. Returns `Some(None)` for an empty text and None for an invalid one.
fn number(text: &str) -> Option<Option<u64>> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return Some(None);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    // A number that overflows lies after any end.
    is_number.then(|| Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        use Wanted::{All, Nothing, Part};
        for (value, expected) in [
            ("bytes=0-", Part(0..10)),
            ("bytes=9-", Part(9..10)),
            ("bytes=3-5", Part(3..6)),
            ("bytes=3-99", Part(3..10)),
            ("bytes=-3", Part(7..10)),
            ("bytes=-99", Part(0..10)),
            ("bytes=10-", Nothing),
            ("bytes=99999999999999999999999-", Nothing),
            ("bytes=-0", Nothing),
            ("bytes=5-3", All),
            ("bytes=1-2,4-5", All),
            ("bytes=-", All),
            ("bytes=a-", All),
            ("bytes=+1-", All),
            ("lines=1-2", All),
        ] {
            assert_eq!(wanted(Some(value), 10), expected, "{value}");
        }
        assert_eq!(wanted(None, 10), All);
        assert_eq!(wanted(Some("bytes=0-"), 0), Nothing);
    }
}
