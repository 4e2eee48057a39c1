//! The same Redis stores jobs and a cache.

use crate::finding::{Confidence, Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer};
use crate::wording::percent;

pub(crate) const NAME: &str = "redis-shared";

/// There is no line to type: the address of a second Redis is not known.
const MOVE: &str =
    "Give a cache a Redis of its own (config.cache_store; CACHE_REDIS_URL in Mastodon).";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    observation.redis.iter().filter_map(Fact::known).filter_map(server).collect()
}

fn server(redis: &RedisServer) -> Option<Finding> {
    let share = redis.large_cache_like_share()?;
    let evidence =
        format!("{} of a sample of its keys expire and are not Sidekiq's", percent(share));
    let finding = Finding::new(NAME, Severity::Notice, format!("Redis {}", redis.name), evidence)
        .with_confidence(Confidence::Likely)
        .leads_to(
            "If they are a cache, it needs eviction, which would delete jobs, and its growth takes \
             memory from the jobs.",
        );
    Some(moved(finding))
}

/// Says where the application names the Redis of its cache.
pub(super) fn moved(finding: Finding) -> Finding {
    finding.adding(MOVE)
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
