//! Random numbers. Each class has its own stream of arrivals, and the size of a job depends on its number only: all
//! policies meet the same jobs at the same times.

use fastrand::Rng;

use crate::scenario::Distribution;

/// Spreads numbers over all bits, so that neighbouring seeds give unrelated streams (the finalizer of SplitMix64).
pub(super) fn spread(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Returns a stream of its own for a purpose.
pub(crate) fn stream(seed: u64, purpose: u64) -> Rng {
    Rng::with_seed(spread(seed ^ spread(purpose)))
}

/// Returns an exponentially distributed number with mean 1.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    // 1 - f64() is in (0, 1], so that the logarithm is finite.
    -(1.0 - rng.f64()).ln()
}

/// Returns a run time relative to its mean.
pub(super) fn size(distribution: Distribution, rng: &mut Rng) -> f64 {
    match distribution {
        Distribution::Constant => 1.0,
        Distribution::Exponential => exponential(rng),
        // The mean of exp(N(0, 1)) is exp(1/2).
        Distribution::Lognormal => (normal(rng) - 0.5).exp(),
    }
}

/// Returns a standard normal number (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (2.0 * exponential(rng)).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Returns the delay before a retry, as Sidekiq's: `count^4 + 15 + rand(10) × (count + 1)`, where the count of the first
/// retry is 0.
pub(super) fn retry_delay(attempt: u32, rng: &mut Rng) -> f64 {
    let count = f64::from(attempt.saturating_sub(1));
    count.powi(4) + 15.0 + f64::from(rng.u32(0..10)) * (count + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_mean_one() {
        for distribution in
            [Distribution::Constant, Distribution::Exponential, Distribution::Lognormal]
        {
            let mut rng = stream(7, 1);
            let mean = (0..200_000).map(|_| size(distribution, &mut rng)).sum::<f64>() / 200_000.0;
            assert!((mean - 1.0).abs() < 0.02, "{distribution:?}: {mean}");
        }
    }

    #[test]
    fn retries_are_as_late_as_sidekiqs() {
        let mut rng = stream(1, 1);
        for _ in 0..100 {
            assert!((15.0..25.0).contains(&retry_delay(1, &mut rng)));
            assert!((31.0..=58.0).contains(&retry_delay(3, &mut rng)));
        }
    }
}
