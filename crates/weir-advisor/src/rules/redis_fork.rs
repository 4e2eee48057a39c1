//! Redis stops for too long when it forks to save a snapshot.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer};
use crate::wording;

pub(crate) const NAME: &str = "redis-fork";

/// Every push and fetch waits that long; users notice half a second.
const FORK_MIN: Duration = Duration::from_millis(500);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let slow = |redis: &&RedisServer| redis.info.latest_fork >= FORK_MIN;
    observation.redis.iter().filter_map(Fact::known).filter(slow).map(found).collect()
}

fn found(redis: &RedisServer) -> Finding {
    let took = wording::duration(redis.info.latest_fork);
    let used = wording::bytes(redis.info.used_memory_bytes);
    let evidence = format!("its last fork took {took}, with {used} in use");
    Finding::new(NAME, Severity::Warning, format!("Redis {}", redis.name), evidence)
        .leads_to("All clients wait that long at each snapshot or rewrite of the append-only file.")
        .change(
            "/etc/tmpfiles.d/redis.conf",
            "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never",
        )
        .next("systemd-tmpfiles --create /etc/tmpfiles.d/redis.conf")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn half_a_second_is_slow() {
        for (millis, findings) in [(499, 0), (500, 1)] {
            let mut observation = healthy::observation();
            observation.redis[0].known_mut().info.latest_fork = Duration::from_millis(millis);
            assert_eq!(check(&observation).len(), findings, "{millis}");
        }
    }
}
