//! Random draws that several benches need.

use fastrand::Rng;

/// Returns an exponentially distributed number.
pub(crate) fn exponential(rng: &mut Rng, mean: f64) -> f64 {
    // 1 - f64() is never 0.
    -mean * (1.0 - rng.f64()).ln()
}
