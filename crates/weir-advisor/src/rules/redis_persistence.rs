//! Jobs may be lost at a restart of Redis.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer, SidekiqObservation};
use crate::redis_settings;
use crate::wording;

pub(crate) const NAME: &str = "redis-persistence";

const CONSEQUENCE: &str = "A restart or a power cut loses every job. So does setting appendonly in \
                           redis.conf and restarting: the running Redis must write its append-only \
                           file first.";

const REJECTED: &str = "Redis rejects writes (MISCONF), so pushes fail";
const ACCEPTED: &str = "Redis takes writes nevertheless (stop-writes-on-bgsave-error is off, it saves no \
                        snapshots by itself, or this one has just failed)";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().zip(observation.each_jobs());
    let of = |(server, (_, jobs)): (&Fact<RedisServer>, (_, &Fact<SidekiqObservation>))| {
        // A replica copies its master again after a restart.
        server
            .known()
            .filter(|it| !it.is_copy())
            .and_then(|it| found(observation, it, jobs.known()))
    };
    servers.filter_map(of).collect()
}

fn found(
    observation: &Observation,
    redis: &RedisServer,
    jobs: Option<&SidekiqObservation>,
) -> Option<Finding> {
    let kept = redis.info.persistence;
    let changes = wording::number(kept.changes_since_snapshot, "change is", "changes are");
    if kept.folder_is_gone {
        return Some(without_folder(observation, redis, &changes));
    }
    if !kept.last_append_ok {
        let evidence = "the last write to the append-only file failed";
        return Some(failed(observation, redis, evidence.to_owned(), REJECTED));
    }
    if !kept.last_snapshot_ok {
        return Some(failed_snapshot(observation, redis, jobs, &changes));
    }
    // Of a Redis that keeps Weir's jobs, another rule says the same (redis-durability).
    let nothing_kept =
        !kept.append_only && kept.snapshots == Some(false) && redis.push_confirmation.is_none();
    nothing_kept.then(|| {
        let evidence = format!("neither appendonly nor snapshots are on, {changes} in memory only");
        Finding::new(NAME, Severity::Warning, subject(redis), evidence)
            .leads_to(CONSEQUENCE)
            .next(observation.redis_command(&redis.name, redis_settings::append_only))
    })
}

/// Reports a failed snapshot. Redis rejects writes only if it saves snapshots by itself, and not with
/// `stop-writes-on-bgsave-error no`, which INFO does not report.
fn failed_snapshot(
    observation: &Observation,
    redis: &RedisServer,
    jobs: Option<&SidekiqObservation>,
    changes: &str,
) -> Finding {
    let evidence = format!("the last snapshot failed, {changes} not saved");
    let takes_writes = redis.info.persistence.snapshots == Some(false)
        || jobs.is_some_and(SidekiqObservation::shows_writes);
    match takes_writes {
        false => failed(observation, redis, evidence, REJECTED),
        true => Finding {
            severity: Severity::Warning,
            ..failed(observation, redis, evidence, ACCEPTED)
        },
    }
}

fn failed(
    observation: &Observation,
    redis: &RedisServer,
    evidence: String,
    effect: &str,
) -> Finding {
    Finding::new(NAME, Severity::Critical, subject(redis), evidence)
        .leads_to(format!(
            "{effect}; a restart loses unsaved changes. The command is for the machine of Redis; its \
             log has the error."
        ))
        .next(observation.redis_command(&redis.name, |cli| {
            format!(
                "(dir=$({cli} CONFIG GET dir | tail -n 1); df -h \"${{dir:?Redis has no folder}}\")"
            )
        }))
}

/// Reports a removed folder. Redis stays in it, so that it can't be replaced while Redis runs, and
/// Redis 7 rejects another one.
fn without_folder(observation: &Observation, redis: &RedisServer, changes: &str) -> Finding {
    let kept = redis.info.persistence;
    let failed = match kept.last_snapshot_ok {
        true => String::new(),
        false => format!("; the last snapshot failed, {changes} not saved"),
    };
    let (harm, start) = match (kept.append_only, kept.snapshots) {
        (true, _) => (
            "Its append-only file no longer has a name, so a restart loses every job.",
            "start Redis with appendonly no (with yes it starts empty) and set appendonly again once \
             it runs",
        ),
        (false, Some(false)) => (
            "Neither appendonly nor snapshots are on, and without a folder they can't be turned on: a \
             restart loses every job.",
            "start Redis",
        ),
        (false, _) => (
            "It can't save a snapshot, so that it rejects writes (MISCONF) or soon will, and a \
             restart loses every unsaved job.",
            "start Redis",
        ),
    };
    let evidence = format!("its folder (dir) was removed{failed}");
    Finding::new(NAME, Severity::Critical, subject(redis), evidence)
        .leads_to(format!(
            "{harm} Do not restart it yet, and creating the folder does not help while it runs. The \
             command saves all jobs in redis-copy.rdb through the network, for which Redis forks. Then \
             CONFIG SET dir to another folder is enough, if Redis accepts it (by default, Redis 7 does \
             not). If it does not: stop what pushes, run the command once more, SHUTDOWN NOSAVE, create \
             the folder, put the copy there as dump.rdb (CONFIG GET dbfilename), and {start}."
        ))
        .next(observation.redis_command(&redis.name, redis_settings::copy_to_file))
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
        observation.jobs.known_mut().stand_still();
        check(&observation).first().map(|finding| finding.severity)
    }

    #[test]
    fn a_failed_write_is_critical() {
        assert_eq!(severity(|kept| kept.last_append_ok = false), Some(Severity::Critical));
        assert_eq!(severity(|kept| kept.last_snapshot_ok = false), Some(Severity::Critical));
    }

    #[test]
    fn a_removed_folder_is_found_and_the_data_is_saved_first() {
        let mut observation = healthy::observation();
        let kept = &mut observation.redis[0].known_mut().info.persistence;
        kept.folder_is_gone = true;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert_eq!(finding.evidence, "its folder (dir) was removed");
        assert!(finding.consequence.contains("start Redis with appendonly no"), "{finding:?}");
        let command = finding.next_step().unwrap().to_owned();
        let steps = ["CONFIG SET repl-diskless-sync yes", "--rdb redis-copy.rdb"];
        let places = steps.map(|step| command.find(step).unwrap());
        assert!(places.is_sorted() && !command.contains("df "), "{command}");
        let kept = &mut observation.redis[0].known_mut().info.persistence;
        (kept.append_only, kept.last_snapshot_ok) = (false, false);
        let finding = check(&observation).remove(0);
        let expected =
            "its folder (dir) was removed; the last snapshot failed, 10 changes are not saved";
        assert_eq!(finding.evidence, expected);
        observation.redis[0].known_mut().info.persistence.folder_is_gone = false;
        let command = check(&observation).remove(0).next_step().unwrap().to_owned();
        assert!(command.contains("df -h \"${dir:?"), "df does not run without a folder: {command}");
    }

    #[test]
    fn one_of_both_ways_is_enough_and_what_is_unknown_is_no_accusation() {
        assert_eq!(severity(|kept| kept.append_only = false), None);
        assert_eq!(severity(|kept| (kept.append_only, kept.snapshots) = (false, None)), None);
        let mut observation = healthy::observation();
        let kept = &mut observation.redis[0].known_mut().info.persistence;
        (kept.append_only, kept.snapshots) = (false, Some(false));
        let finding = check(&observation).remove(0);
        assert_eq!(finding.line_change(), None, "in redis.conf alone it would delete every job");
        assert!(
            finding
                .next_step()
                .unwrap()
                .contains("-p 6379 CONFIG SET appendonly yes | { read -r reply; ")
        );
        let none = severity(|kept| (kept.append_only, kept.snapshots) = (false, Some(false)));
        assert_eq!(none, Some(Severity::Warning));
    }

    #[test]
    fn a_failed_snapshot_does_not_stop_writes_that_succeed() {
        let mut observation = healthy::observation();
        observation.redis[0].known_mut().info.persistence.last_snapshot_ok = false;
        observation.jobs.known_mut().stand_still();
        let first = |it: &Observation| check(it).remove(0);
        assert_eq!(first(&observation).severity, Severity::Critical);
        observation.redis[0].known_mut().info.persistence.snapshots = Some(false);
        assert_eq!(first(&observation).severity, Severity::Warning, "a manual BGSAVE");
        observation.redis[0].known_mut().info.persistence.snapshots = Some(true);
        observation.jobs.known_mut().processed_per_second = Fact::Known(3.0);
        let finding = first(&observation);
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.consequence.starts_with("Redis takes writes nevertheless"), "{finding:?}");
        let redis = observation.redis[0].known_mut().clone();
        assert_eq!(redis.refuses_writes_of(observation.jobs.known_mut()), None);
    }
}
