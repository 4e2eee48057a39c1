//! The time ranges that charts can show.

use serde::Deserialize;

/// `range=6h` in the address of a page with charts.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RangeQuery {
    range: Option<String>,
}

impl RangeQuery {
    pub(crate) fn range_name(self) -> String {
        self.range.unwrap_or_default()
    }
}

/// A range, and the address of the page that shows it.
#[derive(Clone, Debug)]
pub(crate) struct ChartRange {
    pub(crate) name: &'static str,
    pub(crate) seconds: u64,
    pub(crate) address: String,
    pub(crate) is_chosen: bool,
}

/// The word in an address, the name, and the seconds of a range.
type RangeChoice = (&'static str, &'static str, u64);

/// Ranges of the histories of whole parts.
pub(crate) const WHOLE: [RangeChoice; 5] = [
    ("15m", "15 min", 900),
    ("1h", "1 h", 3_600),
    ("6h", "6 h", 21_600),
    ("1d", "1 d", 86_400),
    ("30d", "30 d", 2_592_000),
];

/// Ranges of the history of one queue.
pub(crate) const QUEUE: [RangeChoice; 5] = [
    ("15m", "15 min", 900),
    ("1h", "1 h", 3_600),
    ("6h", "6 h", 21_600),
    ("1d", "1 d", 86_400),
    ("2d", "2 d", 172_800),
];

/// Ranges of the statistics by type of job, which go back one hour.
pub(crate) const TYPES: [RangeChoice; 3] =
    [("1h", "1 h", 3_600), ("30m", "30 min", 1_800), ("10m", "10 min", 600)];

/// Returns all `choices`; the one whose key is `selected` is chosen, or else the first.
pub(crate) fn all(
    choices: &[RangeChoice],
    selected: &str,
    address: impl Fn(&'static str) -> String,
) -> Vec<ChartRange> {
    let chosen = choices.iter().position(|(key, ..)| *key == selected).unwrap_or(0);
    let range = |(index, &(key, name, seconds)): (usize, &RangeChoice)| ChartRange {
        name,
        seconds,
        address: address(key),
        is_chosen: index == chosen,
    };
    choices.iter().enumerate().map(range).collect()
}

/// Returns the length of the chosen range in seconds.
pub(crate) fn chosen_seconds(ranges: &[ChartRange]) -> u64 {
    ranges.iter().find(|range| range.is_chosen).map_or(0, |range| range.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_range_falls_back_to_the_first() {
        for (wanted, seconds) in [("6h", 21_600), ("", 900), ("9y", 900)] {
            let ranges = all(&WHOLE, wanted, |word| format!("/?range={word}"));
            assert_eq!(chosen_seconds(&ranges), seconds, "{wanted}");
            assert_eq!(ranges.iter().filter(|range| range.is_chosen).count(), 1);
        }
    }
}
