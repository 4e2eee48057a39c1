//! A Redis that evicts keys when memory is full loses jobs.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer};
use crate::redis_settings;
use crate::rules::redis_memory;
use crate::wording;

pub(crate) const NAME: &str = "redis-eviction";

const KEEPS_ALL: &str = "noeviction";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().filter_map(Fact::known);
    servers.filter_map(|redis| server(observation, redis)).collect()
}

fn server(observation: &Observation, redis: &RedisServer) -> Option<Finding> {
    let policy = &redis.info.maxmemory_policy;
    let severity = match (redis.info.evicted_keys, policy == KEEPS_ALL, redis.info.maxmemory_bytes)
    {
        (0, true, _) => return None,
        // Without `maxmemory` nothing is evicted, but setting it later would lose jobs.
        (0, false, 0) => Severity::Notice,
        (0, false, _) => Severity::Warning,
        (_, true, _) => Severity::Notice,
        (_, false, _) => Severity::Critical,
    };
    let evicted = wording::number(redis.info.evicted_keys, "key was", "keys were");
    let evidence = format!("maxmemory-policy is {policy}, {evicted} evicted since its start");
    let finding = Finding::new(NAME, severity, format!("Redis {}", redis.name), evidence)
        .leads_to(harm(policy));
    if policy == KEEPS_ALL {
        return Some(finding);
    }
    let keep = |cli: &str| redis_settings::set(cli, "maxmemory-policy", KEEPS_ALL);
    if !redis.is_nearly_full() {
        return Some(finding.next(observation.redis_command(&redis.name, keep)));
    }
    // A full Redis that does not evict rejects every push.
    if redis.is_filled_by_clients() {
        let consequence = format!(
            "{} Buffers of clients fill it: end that client first ({}), then set {KEEPS_ALL}.",
            finding.consequence,
            redis_memory::NAME
        );
        return Some(finding.leads_to(consequence));
    }
    let Some(room) = redis_memory::raised(redis) else {
        let consequence = format!("{} {}", finding.consequence, redis_memory::NO_ROOM);
        return Some(finding.leads_to(consequence));
    };
    let command = |cli: &str| format!("{cli} CONFIG SET maxmemory {room} && {}", keep(cli));
    let consequence = format!(
        "{} Redis is nearly full: the command raises maxmemory first, because otherwise every push \
         would fail.",
        finding.consequence
    );
    Some(finding.leads_to(consequence).next(observation.redis_command(&redis.name, command)))
}

/// Says what Redis does when memory is short. Queues never expire; heartbeats do.
fn harm(policy: &str) -> &'static str {
    match policy {
        KEEPS_ALL => {
            "They were evicted under another policy. If queues were among them, their jobs are lost."
        }
        _ if policy.starts_with("volatile-") => {
            "When memory is short, Redis deletes keys that expire, such as the heartbeats of \
             processes, without an error. Once none is left, every push fails."
        }
        _ => "When memory is short, Redis deletes whole queues without an error.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn an_evicting_policy_is_as_bad_as_what_it_has_done() {
        for (policy, maxmemory_bytes, evicted_keys, expected) in [
            ("noeviction", 1 << 30, 0, None),
            ("allkeys-lru", 0, 0, Some(Severity::Notice)),
            ("allkeys-lru", 1 << 30, 0, Some(Severity::Warning)),
            ("volatile-lru", 1 << 30, 7, Some(Severity::Critical)),
            ("noeviction", 1 << 30, 7, Some(Severity::Notice)),
        ] {
            let mut observation = healthy::observation();
            let redis = observation.redis[0].known_mut();
            policy.clone_into(&mut redis.info.maxmemory_policy);
            (redis.info.maxmemory_bytes, redis.info.evicted_keys) = (maxmemory_bytes, evicted_keys);
            let finding = check(&observation).into_iter().next();
            let severity = finding.as_ref().map(|finding| finding.severity);
            assert_eq!(severity, expected, "{policy} {maxmemory_bytes} {evicted_keys}");
            let consequence = finding.as_ref().map_or("", |finding| finding.consequence.as_str());
            assert_eq!(consequence.contains("whole queues"), policy == "allkeys-lru", "{policy}");
            let next = finding.and_then(|finding| finding.next);
            let expected = (policy != KEEPS_ALL).then_some(
                "redis-cli -h 127.0.0.1 -p 6379 CONFIG SET maxmemory-policy noeviction \
                 && redis-cli -h 127.0.0.1 -p 6379 CONFIG REWRITE",
            );
            assert_eq!(next.as_deref(), expected);
        }
    }

    #[test]
    fn one_that_is_full_gets_room_before_it_evicts_no_more() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        "allkeys-lru".clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.used_memory_bytes) = (100 << 20, 98 << 20);
        redis.info.evicted_keys = 7;
        let next = check(&observation).remove(0).next.unwrap();
        let room = next.find("CONFIG SET maxmemory 150mb && ").unwrap();
        assert!(room < next.find("maxmemory-policy noeviction").unwrap(), "{next}");
        observation.redis[0].known_mut().info.client_memory_bytes = 49 << 20;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.next, None);
        assert!(finding.consequence.contains("end that client first"), "{}", finding.consequence);
    }
}
