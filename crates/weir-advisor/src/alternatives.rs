//! Says what to do where a suggested command is not available: managed services offer neither `CONFIG` nor
//! a shell on the machine of Postgres, a Redis in a container often has no file of settings, and a plan needs
//! queues.

use crate::finding::Finding;
use crate::observation::{Fact, Observation, RedisServer};
use crate::rules;

const CONFIG: &str = " CONFIG SET ";
const SUPERUSER: &str = "sudo -u postgres ";
const REDIS: &str = "CONFIG was not available to doctor: if it is not to an administrator either, as in a managed \
                     Redis, change the setting where the service is configured.";
/// The last part of the commands that change a setting of Redis: `&& redis-cli .. CONFIG REWRITE`.
const REWRITE: &str = " CONFIG REWRITE";
const POSTGRES: &str = "The command is for the machine of Postgres; a managed service has its own way to run it as \
                        an administrator.";

const PLAN: &str = "weir plan";
const NO_PLAN: &str =
    "weir plan calculates values that fit, if it is given the Redis of Sidekiq (--redis) as well.";
/// Shows who has the connections.
const SESSIONS: &str = "SELECT usename, application_name, client_addr, state, count(*) FROM pg_stat_activity \
                        WHERE backend_type = 'client backend' GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC";
/// Shows what a plan would change.
const MEMORY: &str = "SELECT name, setting, unit FROM pg_settings WHERE name IN ('shared_buffers', \
                      'effective_cache_size', 'work_mem', 'max_connections')";

/// Adds the alternative to a command that may not be available.
pub(crate) fn with(observation: &Observation, finding: Finding) -> Finding {
    let finding = without_rewrite(observation, without_plan(observation, finding));
    let next = finding.next_step().unwrap_or_default();
    let text = if next.contains(CONFIG) && lacks_config(observation, &finding) {
        REDIS
    } else if next.contains(SUPERUSER) && observation.is_database_elsewhere() {
        POSTGRES
    } else {
        return finding;
    };
    finding.adding(text)
}

/// Replaces `weir plan`, which plans for no queues, where no Redis of Sidekiq is observed.
fn without_plan(observation: &Observation, finding: Finding) -> Finding {
    if finding.next_step() != Some(PLAN) || !observation.redis.is_empty() {
        return finding;
    }
    let query = if rules::is_about_memory(&finding.rule) { MEMORY } else { SESSIONS };
    finding.adding(NO_PLAN).next(observation.psql(query))
}

/// Removes `CONFIG REWRITE` for a Redis that was started without a file of settings, where it fails, and says
/// where the setting must be made as well.
fn without_rewrite(observation: &Observation, finding: Finding) -> Finding {
    let servers = observation.redis.iter().filter_map(Fact::known);
    let mut own = servers.filter(|redis| finding.subject.ends_with(&redis.name));
    let lacks_file = own.any(|redis| redis.info.lacks_config_file);
    let rest = finding.next_step().and_then(|next| next.strip_suffix(REWRITE));
    let Some((command, _)) = rest.and_then(|rest| rest.rsplit_once(" && ")).filter(|_| lacks_file)
    else {
        return finding;
    };
    let how = format!(
        "Redis runs without a file of settings: give its command line (or that of its container) {} as well, \
         or the next start undoes this.",
        options(command)
    );
    let command = command.to_owned();
    finding.adding(how).next(command)
}

/// Returns the options for `redis-server` that set the same as a command: "--appendonly yes".
fn options(command: &str) -> String {
    let settings = command.split(CONFIG).skip(1).map(|rest| {
        let words: Vec<&str> = rest.split(' ').take(2).collect();
        format!("--{}", words.join(" "))
    });
    settings.collect::<Vec<_>>().join(" ")
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
    fn without_queues_nothing_is_planned() {
        let mut observation = healthy::observation();
        *observation.postgres.known_mut().cache_hit_ratio.known_mut() = 0.5;
        let found = |it: &Observation| {
            let mut findings = crate::advise(it).findings.into_iter();
            findings.find(|finding| finding.rule == "cache-hits").unwrap()
        };
        assert_eq!(found(&observation).next_step(), Some(PLAN));
        (observation.redis, observation.jobs) = (Vec::new(), Fact::NotAsked);
        let finding = found(&observation);
        assert!(finding.next_step().unwrap().contains("shared_buffers"));
        assert!(finding.consequence.ends_with(NO_PLAN));
    }

    #[test]
    fn a_redis_without_a_file_of_settings_rewrites_none() {
        let mut observation = healthy::observation();
        let redis = observation.redis[0].known_mut();
        "allkeys-lru".clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.evicted_keys) = (0, 0);
        let found = |it: &Observation| crate::advise(it).findings.remove(0);
        assert!(found(&observation).next_step().unwrap().ends_with(REWRITE));
        observation.redis[0].known_mut().info.lacks_config_file = true;
        let finding = found(&observation);
        assert!(finding.next_step().unwrap().ends_with("CONFIG SET maxmemory-policy noeviction"));
        assert!(finding.consequence.contains("--maxmemory-policy noeviction as well"));
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
