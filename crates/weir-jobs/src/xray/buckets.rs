//! Ranges of ages and sizes.

use std::time::Duration;

/// The upper ends of the ranges of ages, in seconds.
const AGES: [(u64, &str); 9] = [
    (1, "under 1 s"),
    (10, "1 s to 10 s"),
    (60, "10 s to 1 min"),
    (600, "1 min to 10 min"),
    (3_600, "10 min to 1 h"),
    (21_600, "1 h to 6 h"),
    (86_400, "6 h to 1 d"),
    (604_800, "1 d to 7 d"),
    (u64::MAX, "7 d and more"),
];

/// The upper ends of the ranges of sizes, in bytes.
const SIZES: [(u64, &str); 7] = [
    (256, "under 256 B"),
    (1 << 10, "256 B to 1 KiB"),
    (4 << 10, "1 KiB to 4 KiB"),
    (16 << 10, "4 KiB to 16 KiB"),
    (64 << 10, "16 KiB to 64 KiB"),
    (1 << 20, "64 KiB to 1 MiB"),
    (u64::MAX, "1 MiB and more"),
];

/// Returns the range of an age.
pub(super) fn age(age: Duration) -> &'static str {
    label(&AGES, age.as_secs())
}

/// Returns the range of a size in bytes.
pub(super) fn size(bytes: usize) -> &'static str {
    label(&SIZES, bytes as u64)
}

/// Returns the position of a range among those of ages or sizes.
pub(super) fn rank(label: &str) -> usize {
    let all = AGES.iter().chain(&SIZES);
    all.into_iter().position(|(_, it)| *it == label).unwrap_or(usize::MAX)
}

fn label(ranges: &[(u64, &'static str)], value: u64) -> &'static str {
    let range = ranges.iter().find(|(end, _)| value < *end).or(ranges.last());
    range.map_or("", |(_, label)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_begins_where_the_one_before_ends() {
        assert_eq!(age(Duration::from_millis(999)), "under 1 s");
        assert_eq!(age(Duration::from_secs(1)), "1 s to 10 s");
        assert_eq!(age(Duration::MAX), "7 d and more");
        assert_eq!(size(255), "under 256 B");
        assert_eq!(size(256), "256 B to 1 KiB");
        assert_eq!(size(usize::MAX), "1 MiB and more");
        assert!(rank("under 1 s") < rank("7 d and more"));
    }
}
