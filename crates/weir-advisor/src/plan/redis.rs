//! Computes settings of a Redis that stores jobs.

use std::fmt::Write;

use super::PlannedSetting;
use crate::redis_settings;

/// Returns settings for durable jobs: nothing is evicted, and a crash loses at most one second.
#[must_use]
pub fn redis_settings() -> Vec<PlannedSetting> {
    let setting = |name, value: &str, reason| PlannedSetting {
        name,
        value: value.to_owned(),
        reason,
        restart: false,
    };
    vec![
        setting("maxmemory-policy", "noeviction", "a job that is evicted is lost without an error"),
        setting(
            "appendonly",
            "yes",
            "a restart keeps every job; if only redis.conf had this, a restart would lose them all",
        ),
        setting("appendfsync", "everysec", "a power cut loses at most a second"),
        setting("latency-monitor-threshold", "100", "delays that affect all clients are recorded"),
    ]
}

/// Returns a script that sets and persists the settings in a running Redis. The script takes the
/// options of `redis-cli`.
///
/// An include file would be dangerous: a Redis that starts with `appendonly yes` but without an
/// append-only file starts empty.
#[must_use]
pub fn redis_script(settings: &[PlannedSetting]) -> String {
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
    for PlannedSetting { name, value, reason, .. } in settings {
        let _ = write!(text, "# {reason}\n{cli} CONFIG SET {name} {value} | ok\n");
    }
    let wait = redis_settings::wait_for_file(cli);
    let _ = write!(
        text,
        "# until every job is in the append-only file\n{wait}\n\
         # and from then on at each start\n{cli} CONFIG REWRITE | ok\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Fact, Observation, Persistence, RedisInfo, RedisServer};
    use crate::rules::RULES;

    #[test]
    fn doctor_has_nothing_against_them() {
        let settings = redis_settings();
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
