//! Redis' memory approaches `maxmemory`, or too large a share of the machine.

use crate::finding::{Finding, Severity};
use crate::observation::{CachePresence, Fact, Observation, RedisServer};
use crate::redis_settings;
use crate::rules::redis_shared;
use crate::wording::{bytes, percent};

pub(crate) const NAME: &str = "redis-memory";

/// Maximum share of the machine's memory without `maxmemory`: a snapshot forks, and a busy Redis
/// may then need nearly twice its memory.
const MACHINE_SHARE: f64 = 0.5;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().filter_map(Fact::known).filter(|it| !it.is_copy());
    servers.filter_map(|redis| server(observation, redis)).collect()
}

fn server(observation: &Observation, redis: &RedisServer) -> Option<Finding> {
    let used = redis.info.used_memory_bytes as f64;
    let machine = redis.info.system_memory_bytes;
    let (limit, is_much, severity, what) = match redis.info.maxmemory_bytes {
        0 => (
            machine,
            used >= MACHINE_SHARE * machine as f64,
            Severity::Warning,
            "the machine's memory",
        ),
        ceiling => (ceiling, redis.is_nearly_full(), Severity::Critical, "maxmemory"),
    };
    if limit == 0 || !is_much {
        return None;
    }
    let evidence = format!(
        "{} in use, {} of {what} ({})",
        bytes(redis.info.used_memory_bytes),
        percent(used / limit as f64),
        bytes(limit)
    );
    let finding = Finding::new(NAME, severity, format!("Redis {}", redis.name), evidence);
    if redis.is_filled_by_clients() {
        return Some(filled_by_clients(observation, redis, finding));
    }
    Some(match redis.info.maxmemory_bytes {
        0 => finding
            .leads_to(
                "A snapshot forks, for which the kernel may refuse the memory without the change: \
                 then Redis rejects writes (MISCONF). While it saves, writes copy memory, up to the \
                 same amount again; if the machine runs out of it, the kernel kills a process, most \
                 likely Redis. Only less data or a larger machine prevents that.",
            )
            .change(
                "/etc/sysctl.d/90-redis.conf on the machine of Redis",
                "vm.overcommit_memory = 1",
            )
            .next("sysctl --system"),
        _ => at_limit(observation, redis, finding),
    })
}

/// Reports buffers of clients, which include subscribers. Replies that a client does not read stay in
/// its buffer, which a larger `maxmemory` would only let grow.
fn filled_by_clients(observation: &Observation, redis: &RedisServer, finding: Finding) -> Finding {
    let buffers = bytes(redis.info.client_memory_bytes);
    let evidence = format!(
        "{}; {buffers} of it are buffers of clients (mem_clients_normal)",
        finding.evidence
    );
    Finding { evidence, ..finding }
        .leads_to(
            "A client does not read what Redis sends to it: a forgotten MONITOR, for example. More \
             memory would be filled as well. The list has the client, with the largest omem: end \
             it with CLIENT KILL ID and its id.",
        )
        .next(observation.redis_command(&redis.name, |cli| format!("{cli} CLIENT LIST")))
}

fn at_limit(observation: &Observation, redis: &RedisServer, finding: Finding) -> Finding {
    let harm = match redis.info.maxmemory_policy.as_str() {
        "noeviction" => "At the limit every push fails (OOM command not allowed).",
        "" => "At the limit Redis rejects pushes or evicts keys.",
        _ => "At the limit Redis evicts keys.",
    };
    match raised(redis) {
        _ if redis.cache() == CachePresence::Present => beside_cache(redis, finding, harm),
        Some(value) => finding.leads_to(harm).next(
            observation
                .redis_command(&redis.name, |cli| redis_settings::set(cli, "maxmemory", &value)),
        ),
        None => finding.leads_to(format!("{harm} {NO_ROOM}")),
    }
}

/// Suggests no larger limit, which a cache fills as well. A cache that is full and evicts is as it should
/// be, so that only the jobs beside it are in danger: the rule `redis_eviction` says how.
fn beside_cache(redis: &RedisServer, finding: Finding, harm: &str) -> Finding {
    let keeps_all = redis.info.maxmemory_policy == "noeviction";
    let severity = if keeps_all { finding.severity } else { Severity::Notice };
    let until = match keeps_all {
        true => {
            " Until then, only keys that expire or are removed make room (redis-cli --bigkeys lists \
             the largest)."
        }
        false => "",
    };
    let cache = match redis.large_cache_like_share() {
        Some(_) => {
            "A cache most likely shares this Redis, and would fill a larger maxmemory as well."
        }
        None => {
            "A cache or the jobs themselves fill it (redis-cli --bigkeys lists the largest keys). A \
             cache would fill a larger maxmemory as well."
        }
    };
    let finding = Finding { severity, ..finding }.leads_to(format!("{harm} {cache}"));
    let finding = redis_shared::moved(finding);
    let consequence = format!("{}{until}", finding.consequence);
    finding.leads_to(consequence)
}

/// Replaces the command that raises `maxmemory`.
pub(super) const NO_ROOM: &str = "The machine has no memory for half as much again: remove keys, or move \
                                  Redis to a larger machine.";

/// Returns a value for `maxmemory` above both the present one and the memory in use, as it may be
/// set below that. `None` if the machine has less memory than that.
pub(super) fn raised(redis: &RedisServer) -> Option<String> {
    let least = redis.info.maxmemory_bytes.max(redis.info.used_memory_bytes);
    let value = least / 2 * 3;
    let machine = redis.info.system_memory_bytes;
    (machine == 0 || value <= machine).then(|| format!("{}mb", value.div_ceil(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn memory_is_judged_by_the_ceiling_or_the_machine() {
        for (maxmemory_gib, used_mib, expected) in [
            (0, 4_000, None),
            (0, 4_100, Some(Severity::Warning)),
            (1, 900, None),
            (1, 930, Some(Severity::Critical)),
        ] {
            let mut observation = healthy::observation();
            let redis = observation.redis[0].known_mut();
            redis.info.maxmemory_bytes = maxmemory_gib << 30;
            redis.info.used_memory_bytes = used_mib << 20;
            let severity = check(&observation).first().map(|finding| finding.severity);
            assert_eq!(severity, expected, "{maxmemory_gib} {used_mib}");
        }
    }

    #[test]
    fn the_ceiling_that_is_said_leaves_room_above_what_is_in_use() {
        let next = |ceiling_mib: u64, used_mib: u64| {
            let mut observation = healthy::observation();
            let redis = observation.redis[0].known_mut();
            redis.info.maxmemory_bytes = ceiling_mib << 20;
            redis.info.used_memory_bytes = used_mib << 20;
            check(&observation).remove(0).next_step().unwrap().to_owned()
        };
        assert!(next(100, 98).contains("maxmemory 150mb"), "{}", next(100, 98));
        assert!(next(100, 246).contains("maxmemory 369mb"), "{}", next(100, 246));
    }

    #[test]
    fn memory_that_clients_fill_is_not_raised() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        (redis.info.maxmemory_bytes, redis.info.used_memory_bytes) = (80 << 20, 80 << 20);
        redis.info.client_memory_bytes = 39 << 20;
        assert!(check(&observation)[0].next_step().unwrap().contains("maxmemory"));
        observation.redis[0].known_mut().info.client_memory_bytes = 40 << 20;
        let finding = check(&observation).remove(0);
        assert!(finding.next_step().unwrap().ends_with(" CLIENT LIST"));
        assert!(finding.evidence.contains("; 40 MB of it are buffers"), "{}", finding.evidence);
    }

    #[test]
    fn a_ceiling_above_the_machines_memory_is_not_suggested() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        (redis.info.maxmemory_bytes, redis.info.used_memory_bytes) = (6 << 30, 6 << 30);
        let finding = check(&observation).remove(0);
        assert_eq!((finding.severity, finding.next_step()), (Severity::Critical, None));
        assert!(finding.consequence.ends_with(NO_ROOM), "of 8 GiB: {}", finding.consequence);
    }

    #[test]
    fn beside_a_cache_a_larger_limit_is_not_suggested() {
        for (policy, expected) in
            [("noeviction", Severity::Critical), ("allkeys-lru", Severity::Notice)]
        {
            let mut observation = healthy::observation();
            let redis = observation.redis[0].known_mut();
            (redis.info.maxmemory_bytes, redis.info.used_memory_bytes) = (80 << 20, 80 << 20);
            policy.clone_into(&mut redis.info.maxmemory_policy);
            assert!(check(&observation)[0].next_step().unwrap().contains("maxmemory 120mb"));
            *observation.redis[0].known_mut().cache_like_share.known_mut() = 0.9;
            let finding = check(&observation).remove(0);
            assert_eq!((finding.severity, finding.next_step()), (expected, None), "{policy}");
            let move_it = "Give a cache a Redis of its own";
            assert!(finding.consequence.contains(move_it), "{}", finding.consequence);
        }
    }
}
