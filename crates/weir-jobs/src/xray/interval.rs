//! The 95 % confidence interval of a share that was measured by samples.

/// The quantile of the normal distribution that leaves 2.5 % on each side.
const Z: f64 = 1.959_963_985;

/// Returns the Wilson score interval of the share of jobs of which `hits` of `draws` were found, at
/// 95 % (E. B. Wilson, 1927, Journal of the American Statistical Association 22, 209; recommended for
/// small counts by Brown, Cai and DasGupta, 2001, Statistical Science 16, 101). `draws` must not be 0.
///
/// It is meant for independent draws. No job is drawn twice here, which makes the true share at most
/// as uncertain.
pub(super) fn wilson(hits: u64, draws: u64) -> (f64, f64) {
    let (hits, draws) = (hits as f64, draws as f64);
    let share = hits / draws;
    let square = Z * Z;
    let center = share + square / (2.0 * draws);
    let half = Z * (share * (1.0 - share) / draws + square / (4.0 * draws * draws)).sqrt();
    let scale = 1.0 + square / draws;
    (((center - half) / scale).max(0.0), ((center + half) / scale).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_values_of_the_literature() {
        // R: prop.test(x, n, correct = FALSE)$conf.int
        for (hits, draws, low, high) in [
            (0, 10, 0.0, 0.277_532_8),
            (1, 10, 0.017_876_21, 0.404_150_0),
            (50, 100, 0.403_831_5, 0.596_168_5),
            (2_000, 2_000, 0.998_082_9, 1.0),
        ] {
            let (found_low, found_high) = wilson(hits, draws);
            assert!((found_low - low).abs() < 1e-5, "{hits} of {draws}: {found_low}");
            assert!((found_high - high).abs() < 1e-5, "{hits} of {draws}: {found_high}");
        }
    }

    #[test]
    fn it_holds_in_95_of_100_samples() {
        let mut random = fastrand::Rng::with_seed(11);
        for share in [0.01, 0.2, 0.5] {
            let holds = (0..2_000).filter(|_| {
                let hits = (0..500).filter(|_| random.f64() < share).count() as u64;
                let (low, high) = wilson(hits, 500);
                (low..=high).contains(&share)
            });
            let holds = holds.count();
            assert!((1_860..=1_960).contains(&holds), "{share}: {holds} of 2000");
        }
    }
}
