//! Limits the rate of a repeated log line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Timestamp;

const INTERVAL: Duration = Duration::from_secs(10);

/// Returns true at most once in ten seconds. Never waits.
#[derive(Debug, Default)]
pub struct Seldom {
    next_micros: AtomicU64,
}

impl Seldom {
    /// Returns whether a line may be logged at `now`.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let next = self.next_micros.load(Ordering::Relaxed);
        let after = (now + INTERVAL).as_micros();
        now.as_micros() >= next
            && self
                .next_micros
                .compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_ten_seconds_passes() {
        let (seldom, start) = (Seldom::default(), Timestamp::from_millis(1_000_000));
        let passed = (0..30).filter(|second| seldom.is_due(start + Duration::from_secs(*second)));
        assert_eq!(passed.collect::<Vec<_>>(), [0, 10, 20]);
    }
}
