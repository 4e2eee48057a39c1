//! The mean time that jobs take, of which the recent ones count most.

use std::time::Duration;

/// Samples that count about equally; older ones fade. Few enough to follow a database that slows down,
/// and enough that one long job does not change the mean several times over.
const SAMPLES: u32 = 16;

/// The time of a job before any of its queue has ended.
pub(super) const TIME_UNKNOWN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanTime {
    seconds: f64,
    /// Number of samples, up to `SAMPLES`.
    samples: u32,
}

impl MeanTime {
    pub(super) fn add(&mut self, ran: Duration) {
        self.samples = (self.samples + 1).min(SAMPLES);
        self.seconds += (ran.as_secs_f64() - self.seconds) / f64::from(self.samples);
    }

    /// Returns the mean, or `None` before the first sample.
    pub(super) fn known(self) -> Option<Duration> {
        (self.samples > 0).then(|| Duration::from_secs_f64(self.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_all_samples_and_then_follows_the_last_ones() {
        let mut mean = MeanTime::default();
        assert_eq!(mean.known(), None);
        (1..=9).for_each(|seconds| mean.add(Duration::from_secs(seconds)));
        assert_eq!(mean.known(), Some(Duration::from_secs(5)));
        (0..100).for_each(|_| mean.add(Duration::from_secs(50)));
        let seconds = mean.known().unwrap_or_default().as_secs_f64();
        assert!((49.0..=50.0).contains(&seconds), "{seconds}");
    }
}
