//! The average of a number over time.

/// A number and its integral over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Integral {
    value: f64,
    since: f64,
    sum: f64,
}

impl Integral {
    pub(super) fn add(&mut self, now: f64, change: f64) {
        self.sum += self.value * (now - self.since);
        self.since = now;
        self.value += change;
    }

    /// Returns the integral since the last call, and starts again.
    pub(super) fn take(&mut self, now: f64) -> f64 {
        self.add(now, 0.0);
        std::mem::take(&mut self.sum)
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }
}
