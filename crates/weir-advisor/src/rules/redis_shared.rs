//! The same Redis stores jobs and a cache.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer};
use crate::wording::percent;

pub(crate) const NAME: &str = "redis-shared";

/// Minimum share of cache-like keys. An application may store a few such keys next to its jobs.
const SHARE_MIN: f64 = 0.5;
const PLACE: &str = "the application's environment";
const LINE: &str = "CACHE_REDIS_URL=redis://a-second-server:6379";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    observation.redis.iter().filter_map(Fact::known).filter_map(server).collect()
}

fn server(redis: &RedisServer) -> Option<Finding> {
    let share = redis.cache_like_share.known().filter(|share| **share >= SHARE_MIN)?;
    let evidence =
        format!("{} of a sample of its keys expire and are not Sidekiq's", percent(*share));
    let finding = Finding::new(NAME, Severity::Notice, format!("Redis {}", redis.name), evidence)
        .leads_to(
            "A cache needs eviction, which would delete jobs, and its growth takes memory \
                   from the jobs.",
        );
    Some(moved(finding))
}

/// Reports whether most keys are of a cache, or `None` if no sample of the keys was taken.
pub(super) fn holds_cache(redis: &RedisServer) -> Option<bool> {
    redis.cache_like_share.known().map(|share| *share >= SHARE_MIN)
}

/// Adds the line that moves the cache to a Redis of its own.
pub(super) fn moved(finding: Finding) -> Finding {
    finding.change_and_restart(PLACE, LINE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn mostly_expiring_keys_are_a_cache() {
        for (share, findings) in [(0.49, 0), (0.5, 1)] {
            let mut observation = healthy::observation();
            *observation.redis[0].known_mut().cache_like_share.known_mut() = share;
            assert_eq!(check(&observation).len(), findings, "{share}");
        }
    }
}
