//! Jobs may be lost at a restart of Redis.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer};
use crate::redis_settings;
use crate::wording;

pub(crate) const NAME: &str = "redis-persistence";

const CONSEQUENCE: &str = "A restart or a power cut loses every job. So does setting appendonly in \
                           redis.conf and restarting: the running Redis must write its append-only \
                           file first.";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().filter_map(Fact::known);
    servers.filter_map(|redis| server(observation, redis)).collect()
}

fn server(observation: &Observation, redis: &RedisServer) -> Option<Finding> {
    let kept = redis.info.persistence;
    let changes = wording::number(kept.changes_since_snapshot, "change is", "changes are");
    if !kept.last_append_ok {
        let evidence = "the last write to the append-only file failed";
        return Some(failed(observation, redis, evidence.to_owned()));
    }
    if !kept.last_snapshot_ok {
        return Some(failed(
            observation,
            redis,
            format!("the last snapshot failed, {changes} not saved"),
        ));
    }
    let nothing_kept = !kept.append_only && kept.snapshots == Some(false);
    nothing_kept.then(|| {
        let evidence = format!("neither appendonly nor snapshots are on, {changes} in memory only");
        Finding::new(NAME, Severity::Warning, subject(redis), evidence)
            .leads_to(CONSEQUENCE)
            .next(observation.redis_command(&redis.name, redis_settings::append_only))
    })
}

fn failed(observation: &Observation, redis: &RedisServer, evidence: String) -> Finding {
    Finding::new(NAME, Severity::Critical, subject(redis), evidence)
        .leads_to(
            "Redis rejects writes (MISCONF), so pushes fail; a restart loses unsaved changes.",
        )
        .next(observation.redis_command(&redis.name, |cli| {
            format!("df -h \"$({cli} CONFIG GET dir | tail -n 1)\"")
        }))
}

fn subject(redis: &RedisServer) -> String {
    format!("Redis {}", redis.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::Persistence;

    fn severity(change: impl FnOnce(&mut Persistence)) -> Option<Severity> {
        let mut observation = healthy::observation();
        change(&mut observation.redis[0].known_mut().info.persistence);
        check(&observation).first().map(|finding| finding.severity)
    }

    #[test]
    fn a_failed_write_is_critical() {
        assert_eq!(severity(|kept| kept.last_append_ok = false), Some(Severity::Critical));
        assert_eq!(severity(|kept| kept.last_snapshot_ok = false), Some(Severity::Critical));
    }

    #[test]
    fn one_of_both_ways_is_enough_and_what_is_unknown_is_no_accusation() {
        assert_eq!(severity(|kept| kept.append_only = false), None);
        assert_eq!(severity(|kept| (kept.append_only, kept.snapshots) = (false, None)), None);
        let mut observation = healthy::observation();
        let kept = &mut observation.redis[0].known_mut().info.persistence;
        (kept.append_only, kept.snapshots) = (false, Some(false));
        let finding = check(&observation).remove(0);
        assert_eq!(finding.change, None, "in redis.conf alone it would delete every job");
        assert!(
            finding.next.unwrap().contains("-p 6379 CONFIG SET appendonly yes | { read -r reply; ")
        );
        let none = severity(|kept| (kept.append_only, kept.snapshots) = (false, Some(false)));
        assert_eq!(none, Some(Severity::Warning));
    }
}
