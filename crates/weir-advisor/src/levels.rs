//! Goodput by concurrency: completion rates by the number of busy threads.
//!
//! Only windows with a backlog count: without one, goodput equals the arrival rate, however many
//! threads run. The number of busy threads fluctuates, so windows are grouped into levels, four per
//! doubling.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::observation::Goodput;

/// Levels per doubling of threads: 16, 19, 23, 27, 32.
const LEVELS_PER_DOUBLING: f64 = 4.0;
/// Windows stored per level. The oldest are dropped, because the newest describe the present
/// system.
const WINDOWS_MAX: usize = 40;
/// Levels with fewer windows are ignored, as they may be due to chance.
const WINDOWS_MIN: usize = 3;
/// Older windows are dropped: the system has probably changed since.
const AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// All measured windows. Memory is limited to [`WINDOWS_MAX`] windows for each of about 100 levels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levels(BTreeMap<u32, VecDeque<LoadWindow>>);

/// A measured time window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadWindow {
    /// When it ended.
    pub at: Timestamp,
    /// Its duration.
    pub length: Duration,
    /// Number of busy threads.
    pub threads: u32,
    /// Jobs finished in the window.
    pub jobs: u64,
}

impl Levels {
    /// Adds a window during which jobs were waiting all the time.
    pub fn note(&mut self, window: LoadWindow) {
        if window.threads == 0 || window.length.is_zero() {
            return;
        }
        let level = self.0.entry(level(window.threads)).or_default();
        level.push_back(window);
        if level.len() > WINDOWS_MAX {
            level.pop_front();
        }
        for level in self.0.values_mut() {
            level.retain(|it| window.at.since(it.at) <= AGE_MAX);
        }
        self.0.retain(|_, level| !level.is_empty());
    }

    /// Returns the goodput of each level with enough windows, by number of threads.
    #[must_use]
    pub fn goodput(&self) -> Vec<Goodput> {
        let enough = self.0.values().filter(|level| level.len() >= WINDOWS_MIN);
        enough.map(mean).collect()
    }
}

fn mean(level: &VecDeque<LoadWindow>) -> Goodput {
    let seconds: f64 = level.iter().map(|window| window.length.as_secs_f64()).sum();
    let jobs: u64 = level.iter().map(|window| window.jobs).sum();
    let threads: u64 = level.iter().map(|window| u64::from(window.threads)).sum();
    let threads = threads.div_ceil(level.len() as u64);
    Goodput {
        threads: u32::try_from(threads).unwrap_or(u32::MAX),
        jobs_per_second: jobs as f64 / seconds,
        deviation: deviation(level),
    }
}

/// Returns the standard deviation of the mean: that of single windows over the root of their
/// number.
fn deviation(level: &VecDeque<LoadWindow>) -> f64 {
    let windows = level.len() as f64;
    let rates = || level.iter().map(|window| window.jobs as f64 / window.length.as_secs_f64());
    let mean = rates().sum::<f64>() / windows;
    let squares: f64 = rates().map(|rate| (rate - mean).powi(2)).sum();
    (squares / (windows - 1.0).max(1.0) / windows).sqrt()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the logarithm of 32 bits, times four, is below 130"
)]
fn level(threads: u32) -> u32 {
    (f64::from(threads).log2() * LEVELS_PER_DOUBLING).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(second: u64, threads: u32, jobs: u64) -> LoadWindow {
        let at = Timestamp::from_millis(second * 1_000);
        LoadWindow { at, length: Duration::from_secs(10), threads, jobs }
    }

    #[test]
    fn windows_of_like_numbers_of_threads_are_one_level() {
        let mut levels = Levels::default();
        for second in 0..4 {
            levels.note(window(second, 24 - u32::from(second == 0), 200));
            levels.note(window(second, 48, 120));
        }
        levels.note(window(5, 96, 900));
        let goodput = levels.goodput();
        let found: Vec<_> = goodput.iter().map(|it| (it.threads, it.jobs_per_second)).collect();
        assert_eq!(found, [(24, 20.0), (48, 12.0)], "one window is chance");
    }

    #[test]
    fn windows_that_differ_tell_less() {
        let mut levels = Levels::default();
        for (second, jobs) in [(0, 100), (1, 200), (2, 300)] {
            levels.note(window(second, 16, jobs));
            levels.note(window(second, 32, 200));
        }
        let deviations: Vec<_> = levels.goodput().iter().map(|it| it.deviation).collect();
        // The deviation of 10, 20 and 30 per second is 10; that of their mean is 10 / sqrt(3).
        assert!((deviations[0] - 5.77).abs() < 0.01 && deviations[1] == 0.0, "{deviations:?}");
    }

    #[test]
    fn what_is_old_or_empty_does_not_count() {
        let mut levels = Levels::default();
        (0..3).for_each(|second| levels.note(window(second, 8, 10)));
        levels.note(window(9, 0, 10));
        assert_eq!(levels.goodput().len(), 1);
        levels.note(window(90_000, 64, 10));
        assert_eq!(levels.goodput(), [], "a day later");
        (0..1_000).for_each(|second| levels.note(window(90_000 + second, 64, 10)));
        assert_eq!(levels.0.values().map(VecDeque::len).sum::<usize>(), WINDOWS_MAX);
    }
}
