//! Settings of a Redis that holds jobs.

use super::Setting;

/// What keeps jobs: nothing is evicted, and a crash loses at most a second.
#[must_use]
pub fn redis_settings() -> Vec<Setting> {
    let setting = |name, value: &str, reason| Setting {
        name,
        value: value.to_owned(),
        reason,
        restart: false,
    };
    vec![
        setting("maxmemory-policy", "noeviction", "a job that is evicted is lost without an error"),
        setting("appendonly", "yes", "a restart keeps every job"),
        setting("appendfsync", "everysec", "a power cut loses at most a second"),
        setting("latency-monitor-threshold", "100", "what holds everybody up is recorded"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Fact, Observation, Persistence, RedisServer};
    use crate::rules::RULES;

    #[test]
    fn doctor_has_nothing_against_them() {
        let settings = redis_settings();
        let value = |name: &str| {
            let setting = settings.iter().find(|setting| setting.name == name).unwrap();
            setting.value.clone()
        };
        let redis = RedisServer {
            maxmemory_policy: value("maxmemory-policy"),
            system_memory_bytes: 8 << 30,
            persistence: Persistence {
                append_only: value("appendonly") == "yes",
                snapshots: Some(false),
                last_snapshot_ok: true,
                last_append_ok: true,
                changes_since_snapshot: 0,
            },
            ..RedisServer::default()
        };
        let observation = Observation { redis: vec![Fact::Known(redis)], ..Observation::default() };
        for rule in RULES {
            assert_eq!((rule.check)(&observation), [], "{}", rule.name);
        }
    }
}
