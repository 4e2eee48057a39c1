//! A file beside the segments of a restored log: the periods in which it misses what was appended.
//! Weir does not read it; a backup does.

use std::fmt::Write;

use super::manifest::Discarded;

/// The file's name.
pub(crate) const FILE: &str = "restored";
/// Periods in the file; a restore drops the oldest.
const PERIODS_MAX: usize = 100;
/// Bytes that are read of the file, far more than it has.
pub(crate) const BYTES_MAX: u64 = 64 << 10;

/// Returns the text of the file: a line for each period, with its first and last second.
pub(crate) fn text(earlier: &[Discarded], last: Discarded) -> String {
    let excess = (earlier.len() + 1).saturating_sub(PERIODS_MAX);
    let mut text = String::new();
    for Discarded { from, until } in earlier.iter().skip(excess).chain([&last]) {
        let _ = writeln!(text, "{from} {until}");
    }
    text
}

/// Parses the text. Leaves out what is not a period.
pub(crate) fn parse(text: &str) -> Vec<Discarded> {
    let period = |line: &str| {
        let (from, until) = line.split_once(' ')?;
        Some(Discarded { from: from.parse().ok()?, until: until.parse().ok()? })
    };
    text.lines().filter_map(period).take(PERIODS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_read_again_and_bounded() {
        let mut periods = Vec::new();
        for from in 0..2 * PERIODS_MAX as u64 {
            let last = Discarded { from, until: from + 1 };
            periods = parse(&text(&periods, last));
            assert_eq!(periods.last(), Some(&last));
        }
        assert_eq!((periods.len(), periods[0].from), (PERIODS_MAX, PERIODS_MAX as u64));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_never_panics(text: String) {
            proptest::prop_assert!(parse(&text).len() <= PERIODS_MAX);
        }
    }
}
