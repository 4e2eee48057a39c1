//! Says what to do where a suggested command is not available: managed services offer neither `CONFIG` nor
//! a shell on the machine of Postgres.

use crate::finding::Finding;
use crate::observation::{Fact, Observation, RedisServer};

const CONFIG: &str = " CONFIG SET ";
const SUPERUSER: &str = "sudo -u postgres ";
const REDIS: &str = "CONFIG was not available to doctor: if it is not to an administrator either, as in a managed \
                     Redis, change the setting where the service is configured.";
const POSTGRES: &str = "The command is for the machine of Postgres; a managed service has its own way to run it as \
                        an administrator.";

/// Adds the alternative to a command that may not be available.
pub(crate) fn with(observation: &Observation, finding: Finding) -> Finding {
    let next = finding.next.as_deref().unwrap_or_default();
    let text = if next.contains(CONFIG) && lacks_config(observation, &finding) {
        REDIS
    } else if next.contains(SUPERUSER) && observation.is_database_elsewhere() {
        POSTGRES
    } else {
        return finding;
    };
    let consequence = format!("{} {text}", finding.consequence);
    finding.leads_to(consequence.trim_start())
}

/// Reports whether `CONFIG GET` failed on the server of the finding, which leaves its snapshots unknown.
fn lacks_config(observation: &Observation, finding: &Finding) -> bool {
    let servers = observation.redis.iter().filter_map(Fact::known);
    let is_it = |redis: &&RedisServer| finding.subject.ends_with(&redis.name);
    servers.filter(is_it).any(|redis| redis.info.persistence.snapshots.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;
    use crate::observation::{PostgresAccess, SynchronousCommit};

    #[test]
    fn a_redis_without_config_is_configured_elsewhere() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        "allkeys-lru".clone_into(&mut redis.info.maxmemory_policy);
        let consequence = |it: &Observation| crate::advise(it).findings.remove(0).consequence;
        assert!(!consequence(&observation).contains(REDIS));
        observation.redis[0].known_mut().info.persistence.snapshots = None;
        assert!(consequence(&observation).ends_with(REDIS));
    }

    #[test]
    fn a_database_on_another_machine_may_have_no_shell() {
        let mut observation = healthy::observation();
        *observation.postgres.known_mut().synchronous.known_mut() = SynchronousCommit {
            standby_names: "a".to_owned(),
            waiting: 3,
            longest: std::time::Duration::from_secs(60),
            ..SynchronousCommit::default()
        };
        let consequence = |it: &Observation| crate::advise(it).findings.remove(0).consequence;
        assert!(!consequence(&observation).contains(POSTGRES));
        let host = "db.internal".to_owned();
        observation.postgres_access = Some(PostgresAccess { host, ..PostgresAccess::default() });
        assert!(consequence(&observation).ends_with(POSTGRES));
    }
}
