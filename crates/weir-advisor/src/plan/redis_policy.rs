//! Chooses what a plan does with `maxmemory-policy`, by what was observed of the Redis.

use super::RedisPolicy;
use crate::observation::{CachePresence, Fact, Observation, RedisServer};

/// Returns the policy for the first observed Redis.
#[must_use]
pub fn observed_redis_policy(observation: &Observation) -> RedisPolicy {
    let redis = observation.redis.iter().find_map(Fact::known);
    redis.map_or(RedisPolicy::KeepAll, of_server)
}

fn of_server(redis: &RedisServer) -> RedisPolicy {
    let policy = redis.info.maxmemory_policy.as_str();
    match redis.cache() {
        CachePresence::Absent => RedisPolicy::KeepAll,
        CachePresence::Unknown if !redis.is_nearly_full() => RedisPolicy::KeepAll,
        CachePresence::Present if policy.starts_with("allkeys-") => RedisPolicy::KeepJobs,
        CachePresence::Present | CachePresence::Unknown => RedisPolicy::Unchanged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{redis_script, redis_settings};

    #[test]
    fn beside_a_cache_eviction_does_not_end() {
        for (policy, share, used_mib, expected) in [
            ("allkeys-lru", Some(0.9), 20, RedisPolicy::KeepJobs),
            ("volatile-lru", Some(0.9), 20, RedisPolicy::Unchanged),
            ("noeviction", Some(0.9), 20, RedisPolicy::Unchanged),
            ("allkeys-lru", Some(0.1), 64, RedisPolicy::KeepAll),
            ("allkeys-lru", None, 20, RedisPolicy::KeepAll),
            ("allkeys-lru", None, 64, RedisPolicy::Unchanged),
        ] {
            let mut observation = crate::healthy::observation();
            let redis = observation.redis[0].known_mut();
            policy.clone_into(&mut redis.info.maxmemory_policy);
            (redis.info.maxmemory_bytes, redis.info.used_memory_bytes) = (64 << 20, used_mib << 20);
            redis.cache_like_share = share.map_or(Fact::NotAsked, Fact::Known);
            let seen = observed_redis_policy(&observation);
            assert_eq!(seen, expected, "{policy} {share:?} {used_mib}");
            let script = redis_script(&redis_settings(seen));
            let ends = script.contains("maxmemory-policy noeviction");
            assert_eq!(ends, seen == RedisPolicy::KeepAll, "{script}");
            assert_eq!(seen.note().is_none(), ends);
        }
        assert_eq!(observed_redis_policy(&Observation::default()), RedisPolicy::KeepAll);
    }
}
