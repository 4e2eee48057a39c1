//! Recent slow commands blocked all other clients of Redis.

use std::time::Duration;

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer, SlowCommand};
use crate::wording;

pub(crate) const NAME: &str = "redis-slow-log";

/// Shorter delays are not noticeable.
const SLOW_MIN: Duration = Duration::from_millis(100);
/// Older entries are ignored.
const AGE_MAX: Duration = Duration::from_secs(600);

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().filter_map(Fact::known);
    servers.filter_map(|redis| server(observation, redis)).collect()
}

fn server(observation: &Observation, redis: &RedisServer) -> Option<Finding> {
    let recent = |slow: &&SlowCommand| slow.took >= SLOW_MIN && slow.age <= AGE_MAX;
    let slow: Vec<_> = redis.slow_commands.known()?.iter().filter(recent).collect();
    let worst = slow.iter().max_by_key(|slow| slow.took)?;
    let slowest = if slow.len() == 1 { "" } else { ", the slowest" };
    // The newest entries come first, so an older one shows that none is missing.
    let is_recent = |slow: &SlowCommand| slow.age <= AGE_MAX;
    let is_cut = redis.has_more_slow_commands
        && redis.slow_commands.known().is_some_and(|all| all.iter().all(is_recent));
    let at_least = if is_cut { "at least " } else { "" };
    let evidence = format!(
        "{at_least}{} in the last 10 min{slowest} ({}) took {}",
        wording::number(slow.len() as u64, "slow command", "slow commands"),
        worst.command,
        wording::duration(worst.took)
    );
    let finding = Finding::new(NAME, Severity::Notice, format!("Redis {}", redis.name), evidence)
        .leads_to("Redis runs one command at a time: pushes and fetches waited.");
    Some(
        finding.next(observation.redis_command(&redis.name, |cli| format!("{cli} SLOWLOG GET 10"))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    #[test]
    fn only_recent_and_really_slow_commands_count() {
        let slow = |command: &str, millis, age| SlowCommand {
            command: command.to_owned(),
            took: Duration::from_millis(millis),
            age: Duration::from_secs(age),
        };
        let mut observation = healthy::observation();
        let commands = observation.redis[0].known_mut().slow_commands.known_mut();
        commands.extend([slow("GET", 20, 5), slow("KEYS", 5_000, 700)]);
        assert_eq!(check(&observation), []);
        let commands = observation.redis[0].known_mut().slow_commands.known_mut();
        commands.extend([slow("LRANGE", 1_500, 60), slow("KEYS", 200, 60)]);
        let expected = "2 slow commands in the last 10 min, the slowest (LRANGE) took 1 s";
        assert_eq!(check(&observation)[0].evidence, expected);
        observation.redis[0].known_mut().slow_commands.known_mut().pop();
        let expected = "1 slow command in the last 10 min (LRANGE) took 1 s";
        assert_eq!(check(&observation)[0].evidence, expected);
        // As many were read as were requested, but the oldest of them is older than ten minutes.
        observation.redis[0].known_mut().has_more_slow_commands = true;
        assert_eq!(check(&observation)[0].evidence, expected);
        observation.redis[0].known_mut().slow_commands.known_mut().remove(1);
        assert_eq!(check(&observation)[0].evidence, format!("at least {expected}"));
    }
}
