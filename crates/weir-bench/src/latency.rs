//! Latencies of one phase: an HDR histogram in nanoseconds, three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longest latency, 10 minutes; longer ones are recorded as this.
const LONGEST_NS: u64 = 600_000_000_000;
/// Relative error of a reported percentile: 10^-3.
const SIGNIFICANT_DIGITS: u8 = 3;

#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS);
        Self {
            histogram: histogram.expect("constant bounds are valid: 1 < LONGEST_NS, digits <= 5"),
        }
    }

    pub(crate) fn record(&mut self, elapsed: Duration) {
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(LONGEST_NS);
        self.histogram.saturating_record(nanoseconds.max(1));
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("both histograms have the same constant bounds");
    }

    /// Microseconds at `quantile` (0.0 - 1.0); 0 when nothing was recorded.
    #[expect(clippy::cast_precision_loss, reason = "at most 6e11, exact in a double")]
    pub(crate) fn quantile_us(&self, quantile: f64) -> f64 {
        self.histogram.value_at_quantile(quantile) as f64 / 1e3
    }

    /// Returns how many latencies were recorded.
    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    #[expect(clippy::cast_precision_loss, reason = "at most 6e11, exact in a double")]
    pub(crate) fn longest_us(&self) -> f64 {
        self.histogram.max() as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_microseconds_and_merge() {
        let mut low = Latencies::new();
        let mut high = Latencies::new();
        for step in 1..=50_u64 {
            low.record(Duration::from_micros(step));
            high.record(Duration::from_micros(step + 50));
        }
        low.merge(&high);
        assert!((low.quantile_us(0.5) - 50.0).abs() < 0.1, "{}", low.quantile_us(0.5));
        assert!((low.quantile_us(0.99) - 99.0).abs() < 0.1, "{}", low.quantile_us(0.99));
        assert!((low.longest_us() - 100.0).abs() < 0.1, "{}", low.longest_us());
    }

    #[test]
    fn latencies_above_the_range_are_clamped() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(3600));
        assert!(latencies.longest_us() > 590e6);
    }
}
