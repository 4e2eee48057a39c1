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
    let servers = observation.redis.iter().filter_map(Fact::known).filter(slow);
    servers.map(|redis| found(observation, redis)).collect()
}

/// Suggests no line: a fork copies the page table, so that it takes longer the more memory is in use.
/// Without transparent huge pages, that table would be larger.
fn found(observation: &Observation, redis: &RedisServer) -> Finding {
    let took = wording::duration(redis.info.latest_fork);
    let used = wording::bytes(redis.info.used_memory_bytes);
    let evidence = format!("its last fork took {took}, with {used} in use");
    Finding::new(NAME, Severity::Warning, format!("Redis {}", redis.name), evidence)
        .leads_to(
            "All clients wait about that long at each snapshot or rewrite of the append-only file. A \
             fork takes longer the more memory is in use, and on some virtual machines. Less data or \
             fewer snapshots help; the command shows when they are saved.",
        )
        .next(observation.redis_command(&redis.name, |cli| format!("{cli} CONFIG GET save")))
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

    #[test]
    fn no_kernel_setting_is_suggested_that_does_not_make_a_fork_faster() {
        let mut observation = healthy::observation();
        observation.redis[0].known_mut().info.latest_fork = FORK_MIN;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.line_change(), None);
        assert_eq!(finding.next_step().unwrap(), "redis-cli -h 127.0.0.1 -p 6379 CONFIG GET save");
    }
}
