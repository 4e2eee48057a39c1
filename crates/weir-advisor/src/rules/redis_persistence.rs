//! What of the jobs survives a restart of Redis.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer};
use crate::wording;

pub(crate) const NAME: &str = "redis-persistence";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    observation.redis.iter().filter_map(Fact::known).filter_map(server).collect()
}

fn server(redis: &RedisServer) -> Option<Finding> {
    let kept = redis.persistence;
    let subject = format!("Redis {}", redis.name);
    let changes = wording::count(kept.changes_since_snapshot);
    if !kept.last_append_ok {
        let evidence = "the last write to the append-only file failed";
        return Some(failed(subject, evidence.to_owned()));
    }
    if !kept.last_snapshot_ok {
        return Some(failed(
            subject,
            format!("the last snapshot failed, {changes} changes are not saved"),
        ));
    }
    let nothing_kept = !kept.append_only && kept.snapshots == Some(false);
    nothing_kept.then(|| {
        let evidence = format!(
            "neither appendonly nor snapshots are on, {changes} changes are in memory only"
        );
        Finding::new(NAME, Severity::Warning, subject, evidence)
            .leads_to("A restart or a power cut loses every job.")
            .change("redis.conf", "appendonly yes")
    })
}

fn failed(subject: String, evidence: String) -> Finding {
    Finding::new(NAME, Severity::Critical, subject, evidence)
        .leads_to(
            "Redis refuses writes (MISCONF), so pushes fail; a restart loses what is not saved.",
        )
        .next("df -h \"$(redis-cli config get dir | tail -n 1)\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::Persistence;

    fn severity(change: impl FnOnce(&mut Persistence)) -> Option<Severity> {
        let mut observation = healthy::observation();
        change(&mut observation.redis[0].known_mut().persistence);
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
        let none = severity(|kept| (kept.append_only, kept.snapshots) = (false, Some(false)));
        assert_eq!(none, Some(Severity::Warning));
    }
}
