//! The database finds too few blocks in its own cache.

use crate::finding::{Finding, Severity};
use crate::observation::Observation;
use crate::rules::untuned_database;

pub(crate) const NAME: &str = "cache-hits";

/// A healthy database finds 99 % of blocks in its cache; below 95 % it mostly waits for the disk.
const RATIO_MIN: f64 = 0.95;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let ratio = observation.postgres.known().and_then(|postgres| postgres.cache_hit_ratio.known());
    // A cache that is too small is the cause, and that finding has the ratio.
    let low = ratio
        .filter(|ratio| **ratio < RATIO_MIN && !untuned_database::has_too_small_cache(observation));
    low.map(|ratio| found(*ratio)).into_iter().collect()
}

fn found(ratio: f64) -> Finding {
    let evidence = format!("{:.1} % of blocks were in shared buffers", ratio * 100.0);
    Finding::new(NAME, Severity::Warning, "Postgres cache", evidence)
        .leads_to("The rest came from the kernel's cache or the disk, which may make jobs slower.")
        .next("weir plan")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn below_95_of_100_is_low() {
        for (ratio, findings) in [(0.999, 0), (0.95, 0), (0.949, 1), (0.4, 1)] {
            let mut observation = healthy::observation();
            *observation.postgres.known_mut().cache_hit_ratio.known_mut() = ratio;
            assert_eq!(check(&observation).len(), findings, "{ratio}");
        }
    }

    #[test]
    fn a_cache_that_is_too_small_is_reported_once() {
        let mut observation = healthy::observation();
        *observation.postgres.known_mut().cache_hit_ratio.known_mut() = 0.6;
        observation.postgres.known_mut().settings.known_mut().shared_buffers_bytes = 128 << 20;
        let findings = crate::advise(&observation).findings;
        let rules: Vec<_> = findings.iter().map(|finding| &*finding.rule).collect();
        assert_eq!(rules, [untuned_database::NAME]);
    }
}
