//! A Redis that evicts keys when memory is full loses jobs.

use crate::finding::{Finding, Severity};
use crate::observation::{CachePresence, Fact, Observation, RedisServer};
use crate::redis_settings;
use crate::rules::{redis_memory, redis_shared};
use crate::wording;

pub(crate) const NAME: &str = "redis-eviction";

const KEEPS_ALL: &str = "noeviction";
const CACHE_FIRST: &str = "A cache most likely shares this Redis (redis-cli --bigkeys lists its \
                           largest keys). Do not set noeviction yet: the cache \
                           would fill the memory, and then every push would fail. First move the \
                           cache to a Redis of its own, or give both room: a maxmemory above what is \
                           in use and what the cache still grows by. Set noeviction as the step \
                           after that.";
/// The keys that a sample shows are not those of a cache, which may have been evicted, and heartbeats
/// that are evicted again and again look the same.
const CACHE_OR_JOBS: &str = "What fills it is not known: a cache that shares this Redis, or the jobs \
                             themselves (redis-cli --bigkeys lists the largest keys). Do not set \
                             noeviction yet: a cache would fill the memory, and then every push \
                             would fail. Jobs need a larger maxmemory, or smaller arguments.";
const UNKNOWN_CACHE: &str = "Redis is nearly full, and it is unknown whether a cache shares it: with \
                             noeviction, a cache would fill the rest, and then every push would \
                             fail. Move a cache to a Redis of its own, or raise maxmemory, before \
                             noeviction is set.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().filter_map(Fact::known).filter(|it| !it.is_copy());
    servers.filter_map(|redis| server(observation, redis)).collect()
}

fn server(observation: &Observation, redis: &RedisServer) -> Option<Finding> {
    let policy = &redis.info.maxmemory_policy;
    // Some servers and proxies do not report it.
    if policy.is_empty() {
        return None;
    }
    let severity = match (redis.info.evicted_keys, policy == KEEPS_ALL, redis.info.maxmemory_bytes)
    {
        (0, true, _) => return None,
        // Without `maxmemory` nothing is evicted, but setting it later would lose jobs.
        (0, false, 0) => Severity::Notice,
        (0, false, _) => Severity::Warning,
        (_, true, _) => Severity::Notice,
        // The count is since the start of Redis, which may be months ago.
        (_, false, _) if has_ended(redis) => Severity::Warning,
        (_, false, _) => Severity::Critical,
    };
    let evicted = wording::number(redis.info.evicted_keys, "key was", "keys were");
    let evidence = format!(
        "maxmemory-policy is {policy}, {evicted} evicted since its start{}",
        rejected(redis)
    );
    let finding = Finding::new(NAME, severity, format!("Redis {}", redis.name), evidence)
        .leads_to(harm(redis));
    if policy == KEEPS_ALL {
        return Some(finding);
    }
    let cache = match redis.info.maxmemory_bytes {
        0 => CachePresence::Absent,
        _ => redis.cache(),
    };
    Some(match (cache, redis.is_nearly_full()) {
        (_, true) if redis.is_filled_by_clients() => filled_by_clients(finding),
        (CachePresence::Present, _) => beside_cache(observation, redis, finding),
        (CachePresence::Unknown, true) => finding.adding(UNKNOWN_CACHE),
        (_, true) => full(observation, redis, finding),
        (_, false) => finding.next(observation.redis_command(&redis.name, keep_all)),
    })
}

/// Reports whether no key was evicted between the samples, and memory is not short.
fn has_ended(redis: &RedisServer) -> bool {
    let evicts_none = redis.lately.known().is_some_and(|it| it.evicted_per_second <= 0.0);
    evicts_none && !redis.is_nearly_full()
}

/// Counts commands that were rejected because memory was full, which happens despite eviction if too
/// few keys expire.
fn rejected(redis: &RedisServer) -> String {
    match redis.info.out_of_memory_errors {
        0 => String::new(),
        count => format!(
            "; {} rejected meanwhile because its memory was full (OOM)",
            wording::number(count, "command was", "commands were")
        ),
    }
}

fn keep_all(cli: &str) -> String {
    redis_settings::set(cli, "maxmemory-policy", KEEPS_ALL)
}

fn filled_by_clients(finding: Finding) -> Finding {
    let first = format!(
        "Buffers of clients fill it: end that client first ({}), then set {KEEPS_ALL}.",
        redis_memory::NAME
    );
    finding.adding(first)
}

/// Suggests to move the cache. Without eviction a cache fills the memory, however much there is, and
/// then every push fails: there is no command that ends eviction at once.
fn beside_cache(observation: &Observation, redis: &RedisServer, finding: Finding) -> Finding {
    let what = match redis.large_cache_like_share() {
        Some(_) => CACHE_FIRST,
        None => CACHE_OR_JOBS,
    };
    let finding = redis_shared::moved(finding.adding(what));
    if redis.evicts_only_expiring() {
        return finding;
    }
    let only_expiring = |cli: &str| redis_settings::set(cli, "maxmemory-policy", "volatile-lru");
    finding
        .adding("Until then, the command makes Redis evict only keys that expire, and no jobs.")
        .next(observation.redis_command(&redis.name, only_expiring))
}

/// Raises the limit first, because a full Redis that does not evict rejects every push.
fn full(observation: &Observation, redis: &RedisServer, finding: Finding) -> Finding {
    let Some(room) = redis_memory::raised(redis) else {
        return finding.adding(redis_memory::NO_ROOM);
    };
    let command = |cli: &str| format!("{cli} CONFIG SET maxmemory {room} && {}", keep_all(cli));
    let finding = finding.adding(
        "Redis is nearly full: the command raises maxmemory first, because otherwise every push \
         would fail.",
    );
    finding.next(observation.redis_command(&redis.name, command))
}

/// Says what Redis does when memory is short. Queues never expire; heartbeats do.
fn harm(redis: &RedisServer) -> &'static str {
    match redis.info.maxmemory_policy.as_str() {
        policy if redis.info.maxmemory_bytes == 0 && policy != KEEPS_ALL => {
            "Nothing is evicted as long as maxmemory is 0. Once it is set, a full Redis may delete \
             whole queues (allkeys-) or heartbeats (volatile-) without an error."
        }
        KEEPS_ALL => {
            "They were evicted under another policy. If queues were among them, their jobs are lost."
        }
        _ if redis.evicts_only_expiring() && redis.info.out_of_memory_errors > 0 => {
            "When memory is short, Redis deletes keys that expire, such as the heartbeats of \
             processes, without an error. Jobs do not expire and are kept, but pushes fail while no \
             key that expires is left (OOM command not allowed)."
        }
        _ if redis.evicts_only_expiring() => {
            "When memory is short, Redis deletes keys that expire, such as the heartbeats of \
             processes, without an error. Jobs do not expire and are kept. Once no key that expires \
             is left, every push fails."
        }
        _ => "When memory is short, Redis deletes whole queues without an error.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{Master, RedisOperations};

    #[test]
    fn an_evicting_policy_is_as_bad_as_what_it_has_done() {
        for (policy, maxmemory_bytes, evicted_keys, expected) in [
            ("noeviction", 1 << 30, 0, None),
            ("", 1 << 30, 7, None),
            ("allkeys-lru", 0, 0, Some(Severity::Notice)),
            ("allkeys-lru", 1 << 30, 0, Some(Severity::Warning)),
            ("volatile-lru", 1 << 30, 7, Some(Severity::Critical)),
            ("noeviction", 1 << 30, 7, Some(Severity::Notice)),
        ] {
            let mut observation = healthy::observation();
            let redis = observation.redis[0].known_mut();
            redis.lately = Fact::NotAsked;
            policy.clone_into(&mut redis.info.maxmemory_policy);
            (redis.info.maxmemory_bytes, redis.info.evicted_keys) = (maxmemory_bytes, evicted_keys);
            let finding = check(&observation).into_iter().next();
            let severity = finding.as_ref().map(|finding| finding.severity);
            assert_eq!(severity, expected, "{policy} {maxmemory_bytes} {evicted_keys}");
            let consequence = finding.as_ref().map_or("", |finding| finding.consequence.as_str());
            assert_eq!(consequence.contains("whole queues"), policy == "allkeys-lru", "{policy}");
            let next = finding.as_ref().and_then(Finding::next_step);
            let expected = (policy != KEEPS_ALL && !policy.is_empty()).then_some(
                "redis-cli -h 127.0.0.1 -p 6379 CONFIG SET maxmemory-policy noeviction \
                 && redis-cli -h 127.0.0.1 -p 6379 CONFIG REWRITE",
            );
            assert_eq!(next, expected);
        }
    }

    #[test]
    fn one_that_is_full_gets_room_before_it_evicts_no_more() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        "allkeys-lru".clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.used_memory_bytes) = (100 << 20, 98 << 20);
        redis.info.evicted_keys = 7;
        let next = check(&observation).remove(0).next_step().unwrap().to_owned();
        let room = next.find("CONFIG SET maxmemory 150mb && ").unwrap();
        assert!(room < next.find("maxmemory-policy noeviction").unwrap(), "{next}");
        observation.redis[0].known_mut().info.client_memory_bytes = 49 << 20;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.next_step(), None);
        assert!(finding.consequence.contains("end that client first"), "{}", finding.consequence);
    }

    /// Returns a full Redis that evicts keys, of which `share` are of a cache.
    fn beside_cache(policy: &str, share: f64, evicted_keys: u64) -> Observation {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        policy.clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.used_memory_bytes) = (64 << 20, 64 << 20);
        redis.info.evicted_keys = evicted_keys;
        redis.cache_like_share = Fact::Known(share);
        observation
    }

    #[test]
    fn beside_a_cache_no_command_ends_eviction() {
        for (policy, share, evicted_keys) in
            [("volatile-ttl", 1.0, 21_351), ("volatile-lru", 0.1, 21_351), ("allkeys-lru", 0.5, 7)]
        {
            let mut observation = beside_cache(policy, share, evicted_keys);
            for used_mib in [64, 20] {
                observation.redis[0].known_mut().info.used_memory_bytes = used_mib << 20;
                let finding = check(&observation).remove(0);
                let next = finding.next_step().unwrap_or_default();
                assert!(!next.contains("noeviction"), "{policy}: {next}");
                assert_eq!(next.contains("volatile-lru"), policy == "allkeys-lru", "{next}");
                assert_eq!(finding.line_change(), None, "the address of a second Redis is unknown");
                assert!(finding.consequence.contains("CACHE_REDIS_URL"), "{policy}");
                let expected = "Do not set noeviction yet";
                assert!(finding.consequence.contains(expected), "{}", finding.consequence);
            }
        }
        let kept = "Jobs do not expire and are kept.";
        let consequence = |policy: &str| check(&beside_cache(policy, 1.0, 7)).remove(0).consequence;
        assert!(consequence("volatile-ttl").contains(kept));
        assert!(!consequence("allkeys-lru").contains(kept));
    }

    #[test]
    fn jobs_that_fill_a_redis_are_not_taken_for_a_cache_and_rejected_pushes_are_counted() {
        let mut observation = beside_cache("volatile-lru", 0.1, 21_351);
        let finding = check(&observation).remove(0);
        assert!(finding.consequence.contains("or the jobs themselves"), "{}", finding.consequence);
        assert!(!finding.evidence.contains("OOM"), "{}", finding.evidence);
        observation.redis[0].known_mut().info.out_of_memory_errors = 3;
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.contains("3 commands were rejected"), "{}", finding.evidence);
        assert!(finding.consequence.contains("but pushes fail"), "{}", finding.consequence);
        let memory = redis_memory::check(&observation).remove(0).consequence;
        assert!(memory.contains("or the jobs themselves fill it"), "{memory}");
        let observation = beside_cache("volatile-lru", 0.6, 7);
        let consequence = check(&observation).remove(0).consequence;
        assert!(consequence.contains("A cache most likely shares this Redis"), "{consequence}");
    }

    #[test]
    fn a_full_redis_whose_keys_are_unknown_gets_no_command() {
        let mut observation = beside_cache("allkeys-lru", 0.0, 7);
        observation.redis[0].known_mut().cache_like_share = Fact::NotAsked;
        let finding = check(&observation).remove(0);
        assert_eq!((finding.next_step(), finding.line_change()), (None, None));
        assert!(finding.consequence.contains("unknown whether a cache"), "{}", finding.consequence);
    }

    #[test]
    fn evictions_of_the_past_are_no_present_harm() {
        let mut observation = beside_cache("allkeys-lru", 0.0, 7);
        let severity = |it: &Observation| check(it)[0].severity;
        let lately = |evicted_per_second| {
            Fact::Known(RedisOperations { evicted_per_second, ..RedisOperations::default() })
        };
        observation.redis[0].known_mut().lately = lately(0.0);
        assert_eq!(severity(&observation), Severity::Critical, "it is full");
        let redis = observation.redis[0].known_mut();
        redis.info.used_memory_bytes = 20 << 20;
        assert_eq!(severity(&observation), Severity::Warning);
        observation.redis[0].known_mut().lately = lately(1.5);
        assert_eq!(severity(&observation), Severity::Critical);
    }

    #[test]
    fn the_limits_of_a_replica_evict_nothing() {
        let mut observation = beside_cache("allkeys-lru", 0.0, 7);
        assert_eq!(check(&observation).len(), 1);
        let (address, is_linked) = ("10.0.0.5:6380".to_owned(), true);
        let master = Master { address, is_linked, is_read_only: true, ..Master::default() };
        observation.redis[0].known_mut().info.replica_of = Some(master);
        assert_eq!(check(&observation), []);
        assert_eq!(redis_memory::check(&observation), []);
        observation.redis[0].known_mut().info.persistence.last_snapshot_ok = false;
        assert_eq!(crate::rules::redis_persistence::check(&observation), []);
    }
}
