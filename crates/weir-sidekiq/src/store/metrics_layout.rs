//! Where versions of Sidekiq read the metrics of classes.
//!
//! Sidekiq 7 and 8 use different keys, and earlier versions have no such page. While no process of
//! Sidekiq lives, the versions that were seen last count, or else version 7.

use std::time::Duration;

use tokio::time::Instant;
use weir_base::clock::Timestamp;
use weir_settings::Choice;

/// The keys in which the metrics of classes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Choice)]
pub enum ClassMetricsLayout {
    /// Those of the versions that run.
    #[default]
    Auto,
    #[choice("7")]
    Sidekiq7,
    #[choice("8")]
    Sidekiq8,
    Off,
}

impl ClassMetricsLayout {
    /// Returns patterns of all keys that may be written, each with one such key that never exists.
    pub(super) fn key_patterns(self) -> Vec<(&'static str, &'static str)> {
        let minutes = ("j|*", "j|0|0:0");
        let histograms7 = ("*-[0-9][0-9]-[0-9][0-9]:*", "-00-00:0");
        let histograms8 = ("h|*", "h|-0-0:0");
        match self {
            Self::Off => Vec::new(),
            Self::Auto => vec![minutes, histograms7, histograms8],
            Self::Sidekiq7 => vec![minutes, histograms7],
            Self::Sidekiq8 => vec![minutes, histograms8],
        }
    }
}

/// The layouts that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layouts {
    pub(super) sidekiq7: bool,
    pub(super) sidekiq8: bool,
}

impl Layouts {
    pub(super) const NONE: Self = Self { sidekiq7: false, sidekiq8: false };
    pub(super) const SIDEKIQ7: Self = Self { sidekiq7: true, sidekiq8: false };
    pub(super) const SIDEKIQ8: Self = Self { sidekiq7: false, sidekiq8: true };

    /// Returns the layouts of the processes with these versions. `None`: none of them has the page.
    pub(super) fn of_versions<'v>(versions: impl Iterator<Item = &'v str>) -> Option<Self> {
        let mut layouts = Self::NONE;
        for version in versions {
            let major = version.split('.').next().and_then(|major| major.parse().ok());
            match major {
                Some(..=6) | None => {}
                Some(7_u32) => layouts.sidekiq7 = true,
                Some(8..) => layouts.sidekiq8 = true,
            }
        }
        (layouts != Self::NONE).then_some(layouts)
    }
}

/// What was found when the versions were read last.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutsRead {
    pub(super) at: Instant,
    pub(super) layouts: Layouts,
}

/// The keys of one class and minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MinuteKeys {
    /// Hashes of counts, each with how long it is kept.
    pub(super) counts: Vec<(String, Duration)>,
    layout: Layouts,
    time: MinuteOfTime,
}

/// How long Sidekiq keeps the figures of a minute, and those of ten.
pub(super) const MINUTE_KEPT: Duration = Duration::from_secs(8 * 3_600);
const TEN_MINUTES_KEPT: Duration = Duration::from_secs(3 * 24 * 3_600);

/// A minute in UTC, as digits: `2026`, `11`, `20`, `07`, `05`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MinuteOfTime {
    year: String,
    month: String,
    day: String,
    hour: String,
    minute: String,
}

impl MinuteOfTime {
    fn new(time: Timestamp) -> Self {
        let text = weir_jobs::stamp::rfc3339(time);
        let digits = |from: usize, to: usize| text.get(from..to).unwrap_or_default().to_owned();
        Self {
            year: digits(0, 4),
            month: digits(5, 7),
            day: digits(8, 10),
            hour: digits(11, 13),
            minute: digits(14, 16),
        }
    }
}

impl MinuteKeys {
    pub(super) fn new(layout: Layouts, time: Timestamp) -> Self {
        let time = MinuteOfTime::new(time);
        let MinuteOfTime { year, month, day, hour, minute } = &time;
        let mut counts = Vec::new();
        if layout.sidekiq7 {
            let key = format!("j|{year}{month}{day}|{}:{}", plain(hour), plain(minute));
            counts.push((key, MINUTE_KEPT));
        }
        if layout.sidekiq8 {
            let year = &year[year.len().saturating_sub(2)..];
            let ten = format!("j|{year}{month}{day}|{}:{}", plain(hour), &minute[..1]);
            let one = format!("j|{year}{month}{day}|{}:{minute}", plain(hour));
            counts.extend([(ten, TEN_MINUTES_KEPT), (one, MINUTE_KEPT)]);
        }
        Self { counts, layout, time }
    }

    /// Returns the keys of the histograms of a class.
    pub(super) fn histograms(&self, class: &str) -> Vec<String> {
        let MinuteOfTime { day, hour, minute, .. } = &self.time;
        let mut keys = Vec::new();
        if self.layout.sidekiq7 {
            keys.push(format!("{class}-{day}-{hour}:{}", plain(minute)));
        }
        if self.layout.sidekiq8 {
            keys.push(format!("h|{class}-{}-{}:{}", plain(day), plain(hour), plain(minute)));
        }
        keys
    }
}

/// Returns a number of two digits without its leading zero.
fn plain(digits: &str) -> &str {
    digits.strip_prefix('0').unwrap_or(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_written_while_both_versions_run() {
        let of = |versions: &[&str]| Layouts::of_versions(versions.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["6.5.12", "", "x"]), None);
        assert_eq!(of(&["7.3.9", "6.5.12"]), Some(Layouts::SIDEKIQ7));
        assert_eq!(of(&["8.0.9", "9.0.0"]), Some(Layouts::SIDEKIQ8));
        assert_eq!(of(&["8.0.9", "7.0.0"]), Some(Layouts { sidekiq7: true, sidekiq8: true }));
    }

    #[test]
    fn keys_have_the_zeros_that_each_version_expects() {
        let time = weir_jobs::stamp::parse("2026-11-07T08:04:59.9Z").unwrap();
        let seven = MinuteKeys::new(Layouts::SIDEKIQ7, time);
        assert_eq!(seven.counts, [("j|20261107|8:4".to_owned(), MINUTE_KEPT)]);
        assert_eq!(seven.histograms("A::B"), ["A::B-07-08:4"]);
        let eight = MinuteKeys::new(Layouts::SIDEKIQ8, time);
        let expected = [
            ("j|261107|8:0".to_owned(), TEN_MINUTES_KEPT),
            ("j|261107|8:04".to_owned(), MINUTE_KEPT),
        ];
        assert_eq!(eight.counts, expected);
        assert_eq!(eight.histograms("A::B"), ["h|A::B-7-8:4"]);
        let later = weir_jobs::stamp::parse("2026-11-17T18:43:00Z").unwrap();
        let both = MinuteKeys::new(Layouts { sidekiq7: true, sidekiq8: true }, later);
        let keys: Vec<&str> = both.counts.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["j|20261117|18:43", "j|261117|18:4", "j|261117|18:43"]);
        assert_eq!(both.histograms("C"), ["C-17-18:43", "h|C-17-18:43"]);
    }
}
