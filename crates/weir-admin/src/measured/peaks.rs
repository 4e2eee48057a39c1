//! The most requests in progress at once of each app, over the last day.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_base::clock::Timestamp;

const HOUR: Duration = Duration::from_secs(3_600);
/// A day has quiet and busy hours: fewer hours do not show how many workers are needed.
const HOURS: usize = 24;

/// The peaks of the last hours, by app.
#[derive(Debug, Default)]
pub(super) struct BusyPeaks {
    apps: BTreeMap<String, VecDeque<(Timestamp, u32)>>,
}

impl BusyPeaks {
    /// Notes the peaks of all apps. Apps that are no longer served are forgotten.
    pub(super) fn note<'a>(&mut self, at: Timestamp, peaks: impl Iterator<Item = (&'a str, u32)>) {
        let mut before = std::mem::take(&mut self.apps);
        for (app, peak) in peaks {
            let mut hours = before.remove(app).unwrap_or_default();
            match hours.back_mut().filter(|(began, _)| at.since(*began) < HOUR) {
                Some((_, highest)) => *highest = peak.max(*highest),
                None => hours.push_back((at, peak)),
            }
            if hours.len() > HOURS + 1 {
                hours.pop_front();
            }
            self.apps.insert(app.to_owned(), hours);
        }
    }

    /// Returns the peak of the last day, once a whole day was seen.
    pub(super) fn of_day(&self, app: &str) -> Option<u32> {
        let hours = self.apps.get(app).filter(|hours| hours.len() > HOURS)?;
        hours.iter().map(|(_, peak)| *peak).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_counts_for_a_day_and_is_told_after_one() {
        let mut peaks = BusyPeaks::default();
        let mut told = Vec::new();
        for minute in 0..50 * 60 {
            let peak = if minute == 90 { 7 } else { 2 };
            peaks.note(Timestamp::from_millis(minute * 60_000), [("shop", peak)].into_iter());
            told.push(peaks.of_day("shop"));
        }
        let at = |hour: usize| told[hour * 60 + 1];
        assert_eq!(
            [at(0), at(23), at(24), at(25), at(26)],
            [None, None, Some(7), Some(7), Some(2)]
        );
        peaks.note(Timestamp::from_millis(1), std::iter::empty());
        assert_eq!(peaks.of_day("shop"), None);
    }
}
