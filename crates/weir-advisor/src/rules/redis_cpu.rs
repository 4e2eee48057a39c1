//! Redis uses most of the one core that it can use, or is not what limits a backlog.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisOperations, RedisServer, SidekiqObservation};
use crate::rules::waiting_jobs;
use crate::wording::{count, percent};

pub(crate) const NAME: &str = "redis-cpu";

/// Commands wait for each other long before a core is used completely.
const BUSY_SHARE: f64 = 0.8;
/// A Redis that has more than half of its core left limits nothing.
const IDLE_SHARE: f64 = 0.4;

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let waits = observation.each_jobs().filter_map(|(_, jobs)| jobs.known()).any(waits);
    let servers = observation.redis.iter().filter_map(Fact::known);
    servers.filter_map(|redis| found(observation, redis, waits)).collect()
}

fn waits(jobs: &SidekiqObservation) -> bool {
    jobs.queues.iter().any(|queue| waiting_jobs::is_long(queue) && !queue.is_set_aside())
}

fn found(observation: &Observation, redis: &RedisServer, waits: bool) -> Option<Finding> {
    let lately = redis.lately.known()?;
    let share = lately.cpu_share?;
    let subject = format!("Redis {}", redis.name);
    let used = format!(
        "it uses {} of one core, for {} commands/s",
        percent(share),
        count(whole(lately.per_second))
    );
    if share >= BUSY_SHARE {
        let evidence = format!("{used}{}", most_used(lately));
        let finding = Finding::new(NAME, Severity::Warning, subject, evidence).leads_to(
            "Redis runs its commands on one core: pushes and fetches wait for each other, and more \
             threads or processes do not help. Redis is the limit. See which program sends those \
             commands; then move it to a machine of its own, or divide the jobs among several (shards).",
        );
        let command = |cli: &str| format!("{cli} INFO commandstats");
        return Some(finding.next(observation.redis_command(&redis.name, command)));
    }
    (waits && share <= IDLE_SHARE).then(|| {
        let evidence = format!("{used}: {} are to spare", percent(1.0 - share));
        Finding::new(NAME, Severity::Notice, subject, evidence).leads_to(
            "Jobs wait, but not for Redis: sharding it, or a faster machine for it, will not help.",
        )
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and a cast of a float stays within what 64 bits hold"
)]
fn whole(rate: f64) -> u64 {
    rate.max(0.0) as u64
}

/// Names the command that takes most of the time: ", most of the time for EVALSHA (61 %)".
fn most_used(lately: &RedisOperations) -> String {
    let most = lately.commands.first().filter(|it| it.share > 0.0);
    most.map(|it| format!(", most of the time {} ({})", it.command, percent(it.share)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::healthy;
    use crate::observation::CommandRate;

    fn with(share: Option<f64>, waiting: u64) -> Option<Finding> {
        let mut observation = healthy::observation();
        let queue = observation.jobs.known_mut().queue_mut("push");
        (queue.length, queue.latency) = (waiting, Duration::from_secs(120));
        let lately = observation.redis[0].known_mut().lately.known_mut();
        lately.cpu_share = share;
        lately.commands = vec![CommandRate {
            command: "KEYS".to_owned(),
            per_second: 5.0,
            mean: Duration::from_millis(120),
            share: 0.6,
        }];
        check(&observation).pop()
    }

    #[test]
    fn redis_is_the_limit_or_will_not_help() {
        let finding = with(Some(0.92), 0).unwrap();
        assert_eq!(
            finding.evidence,
            "it uses 92 % of one core, for 900 commands/s, most of the time KEYS (60 %)"
        );
        assert_eq!(finding.severity, Severity::Warning);
        let finding = with(Some(0.3), 100).unwrap();
        assert_eq!(
            finding.evidence,
            "it uses 30 % of one core, for 900 commands/s: 70 % are to spare"
        );
        assert_eq!((finding.severity, finding.next_step()), (Severity::Notice, None));
        assert_eq!(with(Some(0.3), 99), None, "nothing waits");
        assert_eq!(with(Some(0.6), 100), None, "neither");
        assert_eq!(with(None, 100), None);
    }
}
