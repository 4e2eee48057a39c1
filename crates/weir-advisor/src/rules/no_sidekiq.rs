//! The Redis has no Sidekiq keys: the address is wrong, or Sidekiq has never been started.

use crate::finding::{Finding, Severity};
use crate::observation::{Fact, Keyspace, Observation, RedisServer, SidekiqObservation};
use crate::shell;
use crate::wording;

pub(crate) const NAME: &str = "no-sidekiq";

/// Maximum number of databases and namespaces that are named.
const NAMED_MAX: usize = 3;
const FOR_NOBODY: &str = "This report is not about your jobs";

pub(crate) fn check(observation: &Observation) -> Vec<Finding> {
    if !observation.jobs.known().is_some_and(SidekiqObservation::is_nowhere) {
        return Vec::new();
    }
    match observation.redis.first().and_then(Fact::known) {
        Some(redis) => vec![found(observation, redis)],
        // The Redis does not report what else it contains.
        None => vec![nothing(finding("there are no Sidekiq keys"))],
    }
}

fn found(observation: &Observation, redis: &RedisServer) -> Finding {
    let (here, others) = (keys_here(redis), others(redis));
    let evidence = |rest: &str| {
        let Keyspace { database, keys } = here;
        let what = match keys {
            0 => format!("there are no Sidekiq keys: database {database} is empty"),
            1 => format!("the one key of database {database} is not Sidekiq's"),
            _ => format!("none of the {} keys of database {database} is Sidekiq's", count(keys)),
        };
        finding(format!("{what}; {rest}"))
    };
    if let Some(namespace) = redis.namespaces.first() {
        return namespaced(observation, evidence(&namespaces(redis)), redis, namespace);
    }
    match others.first() {
        Some(likely) => elsewhere(evidence(&databases(&others)), redis, *likely),
        // Its keys may have been evicted: jobs, queues and heartbeats.
        None if redis.evicts() => evidence("Redis evicts keys").leads_to(
            "Either Sidekiq uses another Redis, or this one has evicted all of its keys.",
        ),
        None => nothing(evidence("no other database has any key")),
    }
}

fn finding(evidence: impl Into<String>) -> Finding {
    Finding::new(NAME, Severity::Warning, "Sidekiq", evidence)
}

fn nothing(finding: Finding) -> Finding {
    finding
        .leads_to(format!(
            "{FOR_NOBODY}: Sidekiq was never started, this Redis was emptied since, or Sidekiq's \
             REDIS_URL names another one."
        ))
        .next("systemctl cat '*sidekiq*' | grep -iE 'redis|environment'")
}

fn namespaced(
    observation: &Observation,
    finding: Finding,
    redis: &RedisServer,
    namespace: &str,
) -> Finding {
    let key = shell::word(&format!("{namespace}:queues"));
    finding
        .leads_to(format!(
            "{FOR_NOBODY}: doctor does not support redis-namespace (nor does Sidekiq 7) and does \
             not examine keys with a namespace."
        ))
        .next(observation.redis_command(&redis.name, |cli| format!("{cli} SMEMBERS {key}")))
}

fn elsewhere(finding: Finding, redis: &RedisServer, likely: Keyspace) -> Finding {
    // In addresses of sockets, the database is a query parameter.
    let end = if redis.name.starts_with('/') { "?db=" } else { "/" };
    finding
        .leads_to(format!("{FOR_NOBODY}: they are in another database, or on another Redis."))
        .change(
            "the end of the address of Redis that doctor is given (--redis, or url in \
             [[observe.redis]])",
            format!("{end}{}", likely.database),
        )
}

fn keys_here(redis: &RedisServer) -> Keyspace {
    let own = redis.info.keyspaces.iter().find(|it| it.database == redis.database);
    own.copied().unwrap_or(Keyspace { database: redis.database, keys: 0 })
}

/// Returns the other databases with keys: first those with live processes, then 0, Sidekiq's default,
/// then by size.
fn others(redis: &RedisServer) -> Vec<Keyspace> {
    let others =
        redis.info.keyspaces.iter().filter(|it| it.database != redis.database && it.keys > 0);
    let mut others: Vec<Keyspace> = others.copied().collect();
    let is_served = |number| redis.served_elsewhere.iter().any(|it| it.database == number);
    others
        .sort_by_key(|it| (!is_served(it.database), it.database != 0, std::cmp::Reverse(it.keys)));
    others
}

fn databases(others: &[Keyspace]) -> String {
    let of = |it: &Keyspace| match it.keys {
        1 => format!("database {} has 1 key", it.database),
        keys => format!("database {} has {} keys", it.database, count(keys)),
    };
    let named: Vec<String> = others.iter().take(NAMED_MAX).map(of).collect();
    wording::list(named.iter().map(String::as_str))
}

fn namespaces(redis: &RedisServer) -> String {
    let named = redis.namespaces.iter().take(NAMED_MAX).map(|it| format!("\"{it}:\""));
    let named: Vec<String> = named.collect();
    format!("there are keys of one under {}", wording::list(named.iter().map(String::as_str)))
}

fn count(keys: u64) -> String {
    wording::count(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    fn nowhere(database: i64, keyspaces: &[(i64, u64)]) -> Observation {
        let mut observation = healthy::observation();
        *observation.jobs.known_mut() = SidekiqObservation::default();
        let redis = observation.redis[0].known_mut();
        redis.database = database;
        let keyspace =
            |(database, keys): &(i64, u64)| Keyspace { database: *database, keys: *keys };
        redis.info.keyspaces = keyspaces.iter().map(keyspace).collect();
        observation
    }

    #[test]
    fn an_empty_database_beside_one_with_keys_names_that_one() {
        let finding = check(&nowhere(1, &[(3, 9_000), (0, 14)])).remove(0);
        assert_eq!(finding.severity, Severity::Warning, "silence would be health");
        let expected = "there are no Sidekiq keys: database 1 is empty; \
                        database 0 has 14 keys and database 3 has 9,000 keys";
        assert_eq!(finding.evidence, expected);
        assert_eq!(finding.line_change().unwrap().line, "/0");
        let mut socket = nowhere(0, &[(0, 2), (5, 1)]);
        socket.redis[0].known_mut().name = "/run/redis.sock".to_owned();
        let finding = check(&socket).remove(0);
        assert!(finding.evidence.starts_with("none of the 2 keys of database 0 is Sidekiq's"));
        assert_eq!(finding.line_change().unwrap().line, "?db=5");
    }

    #[test]
    fn a_namespace_is_named_with_a_command_that_shows_it() {
        let mut observation = nowhere(0, &[(0, 30), (1, 5)]);
        observation.redis[0].known_mut().namespaces = vec!["shop".to_owned()];
        let finding = check(&observation).remove(0);
        assert!(finding.evidence.ends_with("there are keys of one under \"shop:\""));
        let next = "redis-cli -h 127.0.0.1 -p 6379 SMEMBERS shop:queues";
        assert_eq!(finding.next_step(), Some(next));
        assert_eq!(finding.line_change(), None, "another address would not help");
    }

    #[test]
    fn an_empty_server_asks_where_sidekiq_looks() {
        let finding = check(&nowhere(0, &[])).remove(0);
        assert!(finding.evidence.ends_with("is empty; no other database has any key"));
        assert!(finding.next_step().unwrap().starts_with("systemctl cat '*sidekiq*'"));
        let mut silent = nowhere(0, &[]);
        silent.redis[0] = Fact::NotAsked;
        assert_eq!(
            check(&silent)[0].evidence,
            "there are no Sidekiq keys",
            "what it holds is not known"
        );
    }

    #[test]
    fn one_key_of_sidekiqs_is_enough() {
        let mut observation = nowhere(0, &[(0, 1)]);
        observation.jobs.known_mut().processed = Fact::Known(1);
        assert_eq!(check(&observation), []);
        let mut observation = nowhere(0, &[(0, 1)]);
        observation.jobs = Fact::NotAsked;
        assert_eq!(check(&observation), []);
    }

    #[test]
    fn where_redis_evicts_keys_sidekiq_s_may_have_been_among_them() {
        let mut observation = healthy::observation();
        *observation.jobs.known_mut() = SidekiqObservation::default();
        let redis = observation.redis[0].known_mut();
        "allkeys-lru".clone_into(&mut redis.info.maxmemory_policy);
        (redis.info.maxmemory_bytes, redis.info.evicted_keys) = (redis.info.used_memory_bytes, 7);
        let finding = check(&observation).remove(0);
        assert!(finding.consequence.contains("has evicted all"), "{finding:?}");
        assert_eq!(finding.next_step(), None);
    }
}
