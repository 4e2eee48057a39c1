//! A Redis that keeps Weir's jobs may lose some whose pushes were acknowledged.

use crate::durability::{self, DurabilityRisk, RiskKind, risks};
use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Observation, RedisServer};
use crate::redis_settings;

pub(crate) const NAME: &str = "redis-durability";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    let servers = observation.redis.iter().filter_map(Fact::known);
    servers.flat_map(|redis| server(observation, redis)).collect()
}

fn server(observation: &Observation, redis: &RedisServer) -> Vec<Finding> {
    let Some(confirm) = redis.push_confirmation else { return Vec::new() };
    let risks = risks(&redis.info, confirm).into_iter();
    // Another rule reports every other policy, whoever uses the Redis.
    let own = risks.filter(|risk| risk.setting != durability::MAXMEMORY_POLICY);
    own.map(|risk| remedied(observation, redis, &risk, finding(redis, &risk))).collect()
}

fn remedied(
    observation: &Observation,
    redis: &RedisServer,
    risk: &DurabilityRisk,
    finding: Finding,
) -> Finding {
    const CONFIRM: &str = "[jobs.redis.confirm] in weir.toml";
    let set = |name, value| {
        observation.redis_command(&redis.name, |cli| redis_settings::set(cli, name, value))
    };
    match risk.setting {
        durability::APPENDONLY => {
            finding.next(observation.redis_command(&redis.name, redis_settings::append_only))
        }
        durability::APPENDFSYNC if risk.kind == RiskKind::Loss => {
            finding.next(set("appendfsync", "always"))
        }
        durability::APPENDFSYNC if risk.kind == RiskKind::Rejected => {
            finding.next(set("appendfsync", "everysec"))
        }
        durability::MIN_REPLICAS => finding
            .adding("With the command, Redis rejects every write while no replica is connected.")
            .next(set("min-replicas-to-write", "1")),
        durability::REPLICAS => {
            finding.change_and_restart(CONFIRM, format!("replicas = {}", redis.info.replicas))
        }
        durability::VERSION => finding.change_and_restart(CONFIRM, "disk = false"),
        _ => finding,
    }
}

fn finding(redis: &RedisServer, risk: &DurabilityRisk) -> Finding {
    let severity = match risk.kind {
        RiskKind::Rejected => Severity::Critical,
        RiskKind::Loss if risk.setting == durability::APPENDONLY => Severity::Warning,
        // A choice between speed and safety.
        RiskKind::Loss => Severity::Notice,
        RiskKind::Unknown => Severity::Unknown,
    };
    let subject = format!("{} of Redis {}", risk.setting, redis.name);
    Finding::new(NAME, severity, subject, risk.text.clone())
        .leads_to("Jobs whose pushes Weir has acknowledged may be lost, or pushes are rejected.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::PushConfirmation;
    use crate::healthy;
    use crate::observation::AppendFsync;

    fn severities(change: impl FnOnce(&mut RedisServer)) -> Vec<Severity> {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        redis.push_confirmation = Some(PushConfirmation::default());
        change(redis);
        check(&observation).iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn only_a_redis_with_jobs_of_weir_is_judged() {
        let every_second = |redis: &mut RedisServer| {
            redis.info.persistence.append_fsync = Some(AppendFsync::EverySec);
        };
        assert_eq!(severities(every_second), [Severity::Notice]);
        let of_others = |redis: &mut RedisServer| {
            every_second(redis);
            redis.push_confirmation = None;
        };
        assert_eq!(severities(of_others), []);
        assert_eq!(severities(|_| {}), []);
    }

    #[test]
    fn the_kind_of_risk_decides_the_severity() {
        let no_file = |redis: &mut RedisServer| redis.info.persistence.append_only = false;
        assert_eq!(severities(no_file), [Severity::Warning]);
        let hidden = |redis: &mut RedisServer| redis.info.persistence.append_fsync = None;
        assert_eq!(severities(hidden), [Severity::Unknown]);
        let no_replica = |redis: &mut RedisServer| {
            redis.push_confirmation = Some(PushConfirmation { disk: false, replicas: 1 });
        };
        assert_eq!(severities(no_replica), [Severity::Critical]);
        let evicts = |redis: &mut RedisServer| redis.info.maxmemory_policy = "allkeys-lru".into();
        assert_eq!(severities(evicts), [], "redis-eviction reports it");
    }

    #[test]
    fn a_disk_that_confirms_too_late_has_a_command() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        redis.push_confirmation = Some(PushConfirmation { disk: true, replicas: 0 });
        "8.0.0".clone_into(&mut redis.info.version);
        redis.info.persistence.append_fsync = Some(AppendFsync::No);
        let finding = check(&observation).remove(0);
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.next_step().unwrap().contains("CONFIG SET appendfsync everysec"));
    }
}
