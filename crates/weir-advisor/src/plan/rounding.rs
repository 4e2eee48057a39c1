//! Counts of threads and processes.

/// Far more threads than any machine has, but small enough for exact sums.
const BUSY_MAX: f64 = 1e12;

/// Returns the average number of busy threads (Little's law), clamped to [`BUSY_MAX`].
pub(super) fn busy(per_second: f64, seconds: f64) -> f64 {
    let busy = per_second * seconds;
    if busy.is_nan() { 0.0 } else { busy.clamp(0.0, BUSY_MAX) }
}

/// Rounds up, within the range of counts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what 32 bits hold; no number at all counts as 0"
)]
pub(super) fn ceiling(number: f64) -> u32 {
    if number.is_nan() { 0 } else { number.ceil().clamp(0.0, f64::from(u32::MAX)) as u32 }
}
