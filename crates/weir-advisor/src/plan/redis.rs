//! Computes settings of a Redis that stores jobs.

use std::fmt::Write;

use serde::Serialize;

use super::PlannedSetting;
use crate::redis_settings;

const POLICY: &str = "maxmemory-policy";
const KEEPS_ALL: &str = "noeviction";

/// What a plan does with `maxmemory-policy`. Without eviction, a cache in the same Redis fills the memory,
/// and then every push fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RedisPolicy {
    /// Sets `noeviction`: no cache shares the Redis, as far as known.
    #[default]
    KeepAll,
    /// Sets `volatile-lru`: a cache shares the Redis, whose policy evicts jobs as well.
    KeepJobs,
    /// Leaves it as it is: a cache shares the Redis, or may fill it, and jobs are not evicted.
    Unchanged,
}

impl RedisPolicy {
    /// Says what must come before `noeviction`, or `None` if the plan sets it.
    #[must_use]
    pub const fn note(self) -> Option<&'static str> {
        match self {
            Self::KeepAll => None,
            Self::KeepJobs | Self::Unchanged => Some(
                "a cache most likely shares this Redis: with noeviction it would fill the memory, and \
                 then every push would fail. Give it a Redis of its own, then set maxmemory-policy \
                 noeviction in this one",
            ),
        }
    }
}

/// Returns settings for durable jobs: no job is evicted, and a crash loses at most one second.
#[must_use]
pub fn redis_settings(policy: RedisPolicy) -> Vec<PlannedSetting> {
    let setting = |name, value: &str, reason| PlannedSetting {
        name,
        value: value.to_owned(),
        reason,
        restart: false,
    };
    let policy = match policy {
        RedisPolicy::KeepAll => Some((KEEPS_ALL, "a job that is evicted is lost without an error")),
        RedisPolicy::KeepJobs => {
            Some(("volatile-lru", "only keys that expire are evicted, and no jobs"))
        }
        RedisPolicy::Unchanged => None,
    };
    let policy = policy.map(|(value, reason)| setting(POLICY, value, reason));
    let durable = [
        setting(
            "appendonly",
            "yes",
            "a restart keeps every job; if only redis.conf had this, a restart would lose them all",
        ),
        setting("appendfsync", "everysec", "a power cut loses at most a second"),
        setting("latency-monitor-threshold", "100", "delays that affect all clients are recorded"),
    ];
    policy.into_iter().chain(durable).collect()
}

/// Returns a script that sets and persists the settings in a running Redis. The script takes the
/// options of `redis-cli`.
///
/// An include file would be dangerous: a Redis that starts with `appendonly yes` but without an
/// append-only file starts empty.
#[must_use]
pub fn redis_script(settings: &[PlannedSetting]) -> String {
    let rewrite = "# and from then on at each start\nredis-cli \"$@\" CONFIG REWRITE | ok\n";
    running_script(settings) + rewrite
}

/// Returns the same script for a Redis without a `redis.conf`, in a container: its command line must have the settings
/// from the next start on.
#[must_use]
pub fn redis_container_script(settings: &[PlannedSetting]) -> String {
    running_script(settings)
}

/// Returns the script that sets the settings in a running Redis.
fn running_script(settings: &[PlannedSetting]) -> String {
    let cli = "redis-cli \"$@\"";
    let mut text = "#!/bin/sh\n\
        # Run this against the running Redis, with the options that redis-cli needs to connect:\n\
        #   sh redis-weir.sh -h 127.0.0.1 -p 6379\n\
        # Do not put appendonly into redis.conf instead: a Redis that starts with it but has no \
        such file\n\
        # yet starts without its jobs. (A password: REDISCLI_AUTH.)\n\
        set -eu\n\
        # redis-cli exits with 0 even for an error reply: continue only after OK.\n\
        ok() {\n  \
          answer=$(cat)\n  \
          [ \"$answer\" = OK ] || { echo \"stopped; Redis replied: ${answer:-nothing}\" >&2; exit \
          1; }\n\
        }\n"
    .to_owned();
    let keeps_all = settings.iter().any(|it| it.name == POLICY && it.value == KEEPS_ALL);
    text.push_str(match keeps_all {
        true => "# If a cache shares this Redis, first give it one of its own: without eviction it fills the\n\
                 # memory, and then every push fails.\n",
        false => "# noeviction is left out: a cache most likely shares this Redis. First give it one of its own.\n",
    });
    for PlannedSetting { name, value, reason, .. } in settings {
        let _ = write!(text, "# {reason}\n{cli} CONFIG SET {name} {value} | ok\n");
    }
    let wait = redis_settings::wait_for_file(cli);
    let _ = write!(text, "# until every job is in the append-only file\n{wait}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Fact, Observation, Persistence, RedisInfo, RedisServer};
    use crate::rules::RULES;

    #[test]
    fn doctor_has_nothing_against_them() {
        let settings = redis_settings(RedisPolicy::KeepAll);
        let value = |name: &str| {
            let setting = settings.iter().find(|setting| setting.name == name).unwrap();
            setting.value.clone()
        };
        let info = RedisInfo {
            maxmemory_policy: value("maxmemory-policy"),
            system_memory_bytes: 8 << 30,
            persistence: Persistence {
                append_only: value("appendonly") == "yes",
                append_fsync: None,
                snapshots: Some(false),
                last_snapshot_ok: true,
                last_append_ok: true,
                changes_since_snapshot: 0,
                folder_is_gone: false,
            },
            ..RedisInfo::default()
        };
        let redis = RedisServer { info, ..RedisServer::default() };
        let observation = Observation { redis: vec![Fact::Known(redis)], ..Observation::default() };
        for rule in RULES {
            assert_eq!((rule.check)(&observation), [], "{}", rule.name);
        }
    }
}
