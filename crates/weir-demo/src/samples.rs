//! Durations of an interval, of which the percentiles are of interest.

use std::time::Duration;

/// Limit of durations that are kept; of more, a random selection.
const SAMPLES_MAX: usize = 4_096;

/// Durations, in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    values: Vec<f64>,
    seen: usize,
    longest: Option<f64>,
}

impl Samples {
    pub(crate) fn add(&mut self, duration: Duration) {
        let value = duration.as_secs_f64() * 1e3;
        self.seen += 1;
        self.longest = Some(self.longest.map_or(value, |longest| longest.max(value)));
        if self.values.len() < SAMPLES_MAX {
            self.values.push(value);
            return;
        }
        // Each of those seen so far is kept with the same probability.
        let place = fastrand::usize(..self.seen);
        if let Some(kept) = self.values.get_mut(place) {
            *kept = value;
        }
    }

    /// Returns the longest of all, also of those that were not kept.
    pub(crate) const fn longest(&self) -> Option<f64> {
        self.longest
    }

    /// Returns the duration that the share `part` does not exceed. None: there are none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "part is between 0 and 1, and there are SAMPLES_MAX values"
    )]
    pub(crate) fn percentile(&self, part: f64) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        sorted.get((last as f64 * part).round() as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_few_and_of_many() {
        let mut samples = Samples::default();
        assert_eq!(samples.percentile(0.5), None);
        for ms in [30, 10, 20] {
            samples.add(Duration::from_millis(ms));
        }
        assert_eq!((samples.percentile(0.5), samples.percentile(0.95)), (Some(20.0), Some(30.0)));
        assert_eq!(samples.longest(), Some(30.0));
        for _ in 0..3 * SAMPLES_MAX {
            samples.add(Duration::from_millis(40));
        }
        assert_eq!((samples.values.len(), samples.percentile(0.5)), (SAMPLES_MAX, Some(40.0)));
    }
}
