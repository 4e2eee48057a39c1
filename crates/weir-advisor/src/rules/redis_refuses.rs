//! A Redis rejects all commands: too many clients, a running script or function, loading, or a lost
//! master. Or it rejects writes, or lets them wait.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Missing, MissingReason, Observation, RedisServer};
use crate::redis_settings;

pub(crate) const NAME: &str = "redis-refuses";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let missing = observation.redis.iter().filter_map(Fact::missing);
    let refusing = missing.filter_map(|missing| found(observation, missing));
    let servers = || observation.redis.iter().filter_map(Fact::known);
    let alone = servers().filter(|it| it.info.lacks_replicas);
    let paused = servers().filter(|it| it.info.delays_writes);
    refusing
        .chain(alone.map(|redis| lacks_replicas(observation, redis)))
        .chain(paused.map(|redis| delays_writes(observation, redis)))
        .collect()
}

/// Reports paused writes. Does not suggest to end the pause: during a failover, writes would be
/// lost.
fn delays_writes(observation: &Observation, redis: &RedisServer) -> Finding {
    let evidence = "it lets every write wait (CLIENT PAUSE, or a failover in progress)";
    let subject = format!("Redis {}", redis.name);
    Finding::new(NAME, Severity::Critical, subject, evidence)
        .leads_to(
            "Sidekiq can neither push nor fetch, and sends no heartbeats, even if it runs. The \
             pause ends by itself after the time that was given to CLIENT PAUSE. If the command \
             shows no failover (master_failover_state), CLIENT UNPAUSE ends it at once.",
        )
        .next(observation.redis_command(&redis.name, |cli| format!("{cli} INFO replication")))
}

/// Reports missing replicas. Does not suggest to remove the limit: the server may be the isolated
/// part of a split, where writes would be lost.
fn lacks_replicas(observation: &Observation, redis: &RedisServer) -> Finding {
    let evidence = "it rejects every write (NOREPLICAS): min-replicas-to-write is set and no \
                    replica is \
                    connected";
    let subject = format!("Redis {}", redis.name);
    Finding::new(NAME, Severity::Critical, subject, evidence)
        .leads_to(
            "Sidekiq can neither push nor fetch. Start the replica. Only if this is still the \
             master and the replica will not return: CONFIG SET min-replicas-to-write 0, and CONFIG \
             REWRITE.",
        )
        .next(observation.redis_command(&redis.name, |cli| format!("{cli} INFO replication")))
}

/// Reports whether this rule handles the reason.
pub(super) const fn says(obstacle: MissingReason) -> bool {
    use MissingReason::{ClientsExhausted, Function, Loading, MasterLost, Script};
    matches!(obstacle, ClientsExhausted | Function | Loading | MasterLost | Script)
}

fn found(observation: &Observation, missing: &Missing) -> Option<Finding> {
    if !says(missing.obstacle) {
        return None;
    }
    // The subject already contains the name.
    let evidence = match missing.reason.strip_prefix(&missing.what) {
        Some(does) => format!("it{does}"),
        None => missing.reason.clone(),
    };
    let finding = Finding::new(NAME, Severity::Critical, missing.what.as_str(), evidence);
    let name = missing.what.trim_start_matches("Redis ");
    Some(match missing.obstacle {
        MissingReason::ClientsExhausted => finding
            .leads_to(
                "New connections are rejected: those of Sidekiq, of the application, and of \
                     redis-cli. First stop a client that is not needed, and no Sidekiq process, \
                     which could not connect again; then the command has a connection, and shows \
                     the limit with all clients. Raise a limit that is too low (CONFIG SET \
                     maxclients; 10000 is the default). If a program opens more and more \
                     connections, it will fill a higher limit as well.",
            )
            .next(observation.redis_command(name, |cli| {
                format!("{cli} CONFIG GET maxclients && {cli} CLIENT LIST")
            })),
        MissingReason::Script => blocked(finding)
            .next(observation.redis_command(name, |cli| format!("{cli} SCRIPT KILL"))),
        MissingReason::Function => blocked(finding)
            .next(observation.redis_command(name, |cli| format!("{cli} FUNCTION KILL"))),
        MissingReason::Loading => finding
            .leads_to("Every push and fetch is rejected until all data is loaded.")
            .next(observation.redis_command(name, redis_settings::wait_for_data)),
        _ => finding
            .leads_to(
                "It does not serve its copy of the data, and Sidekiq cannot write to it. The command \
                 shows its master (master_host, master_port): that is the address of Redis for Sidekiq \
                 (REDIS_URL) and for doctor.",
            )
            .next(observation.redis_command(name, |cli| format!("{cli} INFO replication"))),
    })
}

fn blocked(finding: Finding) -> Finding {
    finding.leads_to(
        "Every push and fetch is rejected until it ends. A script that has already written cannot \
         be ended without losing its writes: in that case wait for it.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_without_the_replicas_that_it_wants_is_found_and_its_limit_stays() {
        let mut observation = crate::healthy::observation();
        observation.redis[0].known_mut().info.lacks_replicas = true;
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        let expected = "redis-cli -h 127.0.0.1 -p 6379 INFO replication";
        assert_eq!(finding.next_step(), Some(expected));
        let why = observation.redis[0]
            .known_mut()
            .clone()
            .loses_heartbeats(observation.jobs.known_mut())
            .unwrap();
        assert!(why.ends_with("(NOREPLICAS)"), "{why}");
    }

    #[test]
    fn paused_writes_are_found_and_no_process_is_to_be_restarted_for_them() {
        let mut observation = crate::healthy::observation();
        observation.redis[0].known_mut().info.delays_writes = true;
        for process in &mut observation.jobs.known_mut().processes {
            process.presence = crate::observation::ProcessPresence::Silent;
        }
        let findings = crate::advise(&observation).findings;
        assert_eq!((&*findings[0].rule, findings[0].severity), (NAME, Severity::Critical));
        assert!(findings[0].consequence.contains("even if it runs"));
        for finding in findings.iter().filter(|it| it.rule != NAME) {
            assert!(!finding.consequence.contains("restart yours"), "{finding:?}");
            assert!(!finding.next_step().is_some_and(|it| it.contains("list-unit")));
        }
    }

    use crate::advise;
    use crate::healthy;

    fn refusing(obstacle: MissingReason, reason: &str) -> Observation {
        let mut observation = healthy::observation();
        let missing = Missing {
            what: "Redis 10.0.0.5:6380".to_owned(),
            obstacle,
            reason: reason.to_owned(),
            remedy: Some("wait".to_owned()),
        };
        observation.redis = vec![Fact::Unknown(missing.clone())];
        observation.jobs = Fact::Unknown(missing);
        observation
    }

    #[test]
    fn each_refusal_is_a_finding_with_what_ends_it_and_not_only_unseen() {
        const CLI: &str = "redis-cli -h 10.0.0.5 -p 6380";
        for (obstacle, reason, next) in [
            (
                MissingReason::ClientsExhausted,
                "ERR max number of clients reached",
                "CONFIG GET maxclients && ",
            ),
            (
                MissingReason::Script,
                "BUSY You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                "SCRIPT KILL",
            ),
            (
                MissingReason::Function,
                "BUSY You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
                "FUNCTION KILL",
            ),
            (
                MissingReason::Loading,
                "LOADING Redis is loading the dataset in memory",
                "INFO persistence",
            ),
            (MissingReason::MasterLost, "MASTERDOWN Link with MASTER is down", "INFO replication"),
        ] {
            let findings = advise(&refusing(obstacle, reason)).findings;
            assert_eq!(findings.len(), 1, "{findings:?}");
            let finding = &findings[0];
            assert_eq!((&*finding.rule, finding.severity), (NAME, Severity::Critical));
            assert_eq!(
                (finding.subject.as_str(), finding.evidence.as_str()),
                ("Redis 10.0.0.5:6380", reason)
            );
            let command = finding.next_step().unwrap();
            assert!(command.contains(&format!("{CLI} {next}")), "{command}");
        }
    }

    #[test]
    fn a_name_is_said_once() {
        let reason = "Redis 10.0.0.5:6380 is still loading its data from disk (LOADING)";
        let finding = check(&refusing(MissingReason::Loading, reason)).remove(0);
        assert_eq!(finding.evidence, "it is still loading its data from disk (LOADING)");
    }

    #[test]
    fn one_that_is_away_is_only_unseen() {
        assert_eq!(check(&refusing(MissingReason::Unreachable, "refused")), []);
        assert_eq!(check(&refusing(MissingReason::NotAllowed, "NOAUTH")), []);
    }
}
