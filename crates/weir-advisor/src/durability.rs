//! What a Redis may lose of the jobs whose pushes Weir has acknowledged, and what to change.
//!
//! `weir check`, doctor and the log of a start say the same sentences, from here.

use serde::Serialize;

use crate::observation::{AppendFsync, RedisInfo};
use crate::wording;

/// The settings that decide what may be lost.
pub(crate) const APPENDONLY: &str = "appendonly";
pub(crate) const MAXMEMORY_POLICY: &str = "maxmemory-policy";
pub(crate) const APPENDFSYNC: &str = "appendfsync";
pub(crate) const MIN_REPLICAS: &str = "min-replicas-to-write";
pub(crate) const REPLICAS: &str = "jobs.redis.confirm.replicas";
pub(crate) const VERSION: &str = "redis_version";

/// The policy that deletes nothing.
const KEEPS_ALL: &str = "noeviction";
/// The first Redis with `WAITAOF`.
const WAITAOF_SINCE: (u32, u32) = (7, 2);

/// What Weir waits for before it acknowledges a push: `[jobs.redis.confirm]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PushConfirmation {
    /// The disk of Redis, and those of `replicas`.
    pub disk: bool,
    /// This many replicas.
    pub replicas: u64,
}

/// A way in which an acknowledged job may be lost, or in which the settings contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DurabilityRisk {
    pub kind: RiskKind,
    /// The setting of Redis or Weir that decides it.
    pub setting: &'static str,
    /// The setting as it is, and what may be lost.
    pub text: String,
    /// What to change.
    pub change: String,
}

/// How certain and how bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskKind {
    /// Acknowledged jobs are lost in the case that the text describes.
    Loss,
    /// Pushes are rejected.
    Rejected,
    /// Redis does not tell.
    Unknown,
}

impl DurabilityRisk {
    fn new(
        kind: RiskKind,
        setting: &'static str,
        text: impl Into<String>,
        change: impl Into<String>,
    ) -> Self {
        Self { kind, setting, text: text.into(), change: change.into() }
    }

    fn loss(setting: &'static str, text: impl Into<String>, change: impl Into<String>) -> Self {
        Self::new(RiskKind::Loss, setting, text, change)
    }

    /// Returns the sentence for people.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!("{}; {}", self.text, self.change)
    }
}

/// Returns all risks of a Redis that keeps Weir's jobs, the worst first.
#[must_use]
pub fn risks(redis: &RedisInfo, confirm: PushConfirmation) -> Vec<DurabilityRisk> {
    let rules = [
        without_waitaof(redis, confirm),
        eviction(redis),
        file(redis, confirm),
        fsync(redis, confirm),
        failover(redis, confirm),
        isolated_primary(redis, confirm),
    ];
    rules.into_iter().flatten().collect()
}

fn without_waitaof(redis: &RedisInfo, confirm: PushConfirmation) -> Option<DurabilityRisk> {
    let mut parts = redis.version.split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (parts.next()?, parts.next().unwrap_or_default());
    let text = format!(
        "version {} has no WAITAOF, which jobs.redis.confirm.disk requires: every push is rejected",
        redis.version
    );
    let change = "upgrade to Redis 7.2 or Valkey 8, or set jobs.redis.confirm.disk = false";
    let is_older = confirm.disk && version < WAITAOF_SINCE;
    is_older.then(|| DurabilityRisk::new(RiskKind::Rejected, VERSION, text, change))
}

fn eviction(redis: &RedisInfo) -> Option<DurabilityRisk> {
    let policy = redis.maxmemory_policy.as_str();
    let change = "CONFIG SET maxmemory-policy noeviction";
    match policy {
        KEEPS_ALL => None,
        "" => Some(DurabilityRisk::new(
            RiskKind::Unknown,
            MAXMEMORY_POLICY,
            "maxmemory-policy is unknown: Redis may delete queues when its memory is full",
            "check that it is noeviction",
        )),
        // Without a limit of memory nothing is evicted now.
        _ if redis.maxmemory_bytes == 0 => Some(DurabilityRisk::loss(
            MAXMEMORY_POLICY,
            format!(
                "maxmemory-policy is {policy}: once maxmemory is set, a full Redis deletes queues"
            ),
            change,
        )),
        _ => Some(DurabilityRisk::loss(
            MAXMEMORY_POLICY,
            format!("maxmemory-policy is {policy}: when its memory is full, Redis deletes queues"),
            change,
        )),
    }
}

fn file(redis: &RedisInfo, confirm: PushConfirmation) -> Option<DurabilityRisk> {
    if redis.persistence.append_only {
        return None;
    }
    let change = "CONFIG SET appendonly yes, and only then in redis.conf";
    if confirm.disk {
        let text =
            "appendonly is no, and jobs.redis.confirm.disk requires it: every push is rejected";
        return Some(DurabilityRisk::new(RiskKind::Rejected, APPENDONLY, text, change));
    }
    let lost = match redis.persistence.snapshots {
        Some(false) => "a restart of Redis loses every job",
        _ => "a crash of Redis or a power cut loses every push since its last snapshot",
    };
    Some(DurabilityRisk::loss(APPENDONLY, format!("appendonly is no: {lost}"), change))
}

fn fsync(redis: &RedisInfo, confirm: PushConfirmation) -> Option<DurabilityRisk> {
    if !redis.persistence.append_only {
        return None;
    }
    let wait = "or jobs.redis.confirm.disk = true";
    match redis.persistence.append_fsync {
        Some(AppendFsync::Always) => None,
        Some(AppendFsync::No) if confirm.disk => Some(DurabilityRisk::new(
            RiskKind::Rejected,
            APPENDFSYNC,
            "appendfsync is no: the confirmation of jobs.redis.confirm.disk waits for the operating \
             system, for half a minute or more",
            "CONFIG SET appendfsync everysec",
        )),
        fsync if confirm.disk && confirms_early(redis) => {
            let fsync = if fsync.is_none() { "unknown" } else { "everysec" };
            Some(DurabilityRisk::loss(
                APPENDFSYNC,
                format!(
                    "appendfsync is {fsync}, and this version of the server confirms the disk up to a \
                     second before its sync: a power cut of the primary and its replicas loses these \
                     pushes"
                ),
                "CONFIG SET appendfsync always, on the replicas as well",
            ))
        }
        _ if confirm.disk => None,
        Some(AppendFsync::EverySec) => Some(DurabilityRisk::loss(
            APPENDFSYNC,
            "appendfsync is everysec: a power cut loses the pushes of the last second, or of two if \
             the disk is slow",
            format!("CONFIG SET appendfsync always, {wait}"),
        )),
        Some(AppendFsync::No) => Some(DurabilityRisk::loss(
            APPENDFSYNC,
            "appendfsync is no: a power cut loses the pushes of the last half minute or more",
            format!("CONFIG SET appendfsync always, {wait}"),
        )),
        None => Some(DurabilityRisk::new(
            RiskKind::Unknown,
            APPENDFSYNC,
            "appendfsync is unknown, because this user may not ask CONFIG GET: a power cut may lose \
             pushes",
            format!("check that it is always (ACL rule +config|get), {wait}"),
        )),
    }
}

/// Reports whether `WAITAOF` returns up to a second too early with `appendfsync everysec`, of the
/// primary and of replicas: in Redis 7.4 (pull request 13793 of redis/redis, which Redis 8.0 contains)
/// and in Valkey 8 (measured with 8.0.1).
fn confirms_early(redis: &RedisInfo) -> bool {
    match redis.valkey_version.as_str() {
        "" => redis.version.starts_with("7.4."),
        valkey => !valkey.starts_with("7."),
    }
}

/// A replica that is promoted without the last pushes.
fn failover(redis: &RedisInfo, confirm: PushConfirmation) -> Option<DurabilityRisk> {
    let (connected, asked) = (redis.replicas, confirm.replicas);
    let replicas = wording::number(connected, "replica is", "replicas are");
    if asked > connected {
        let text = format!(
            "{replicas} connected, and jobs.redis.confirm.replicas is {asked}: pushes end with an \
             error"
        );
        let change = format!("start a replica, or set jobs.redis.confirm.replicas = {connected}");
        return Some(DurabilityRisk::new(RiskKind::Rejected, REPLICAS, text, change));
    }
    if asked == connected {
        return None;
    }
    let change = format!(
        "set jobs.redis.confirm.replicas = {connected}, the count that is safe with {connected}"
    );
    let text = if asked == 0 {
        format!("{replicas} connected, and pushes wait for none: a failover loses what it lacks")
    } else {
        format!(
            "{replicas} connected, and pushes wait for {asked}: a failover to another one loses what \
             that one lacks"
        )
    };
    Some(DurabilityRisk::loss(REPLICAS, text, change))
}

/// A primary that has lost its replicas and does not know that one of them was promoted.
fn isolated_primary(redis: &RedisInfo, confirm: PushConfirmation) -> Option<DurabilityRisk> {
    let is_at_risk = redis.replicas > 0 && !redis.requires_replicas && confirm.replicas == 0;
    is_at_risk.then(|| {
        DurabilityRisk::loss(
            MIN_REPLICAS,
            "min-replicas-to-write is 0: a primary that is cut off acknowledges pushes that the \
             failover discards",
            "CONFIG SET min-replicas-to-write 1, or jobs.redis.confirm.replicas",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::healthy;

    const BOTH: PushConfirmation = PushConfirmation { disk: true, replicas: 1 };

    fn healthy() -> RedisInfo {
        let info = healthy::observation().redis[0].known_mut().info.clone();
        RedisInfo { version: "7.2.4".to_owned(), ..info }
    }

    fn kinds(change: impl FnOnce(&mut RedisInfo), confirm: PushConfirmation) -> Vec<RiskKind> {
        let mut redis = healthy();
        change(&mut redis);
        risks(&redis, confirm).iter().map(|risk| risk.kind).collect()
    }

    fn text(change: impl FnOnce(&mut RedisInfo), confirm: PushConfirmation) -> String {
        let mut redis = healthy();
        change(&mut redis);
        let all = risks(&redis, confirm);
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].sentence()
    }

    #[test]
    fn a_redis_that_syncs_always_and_has_no_replica_loses_nothing() {
        assert_eq!(kinds(|_| {}, PushConfirmation::default()), []);
        let disk = PushConfirmation { disk: true, replicas: 0 };
        assert_eq!(kinds(|_| {}, disk), []);
        let with_replica = |redis: &mut RedisInfo| {
            redis.replicas = 1;
            redis.persistence.append_fsync = Some(AppendFsync::EverySec);
        };
        assert_eq!(kinds(with_replica, BOTH), []);
    }

    #[test]
    fn each_setting_that_loses_jobs_is_named_with_its_remedy() {
        let none = PushConfirmation::default();
        let evicts = text(|redis| redis.maxmemory_policy = "allkeys-lru".to_owned(), none);
        assert!(evicts.contains("allkeys-lru") && evicts.contains("noeviction"), "{evicts}");
        let no_file = text(|redis| redis.persistence.append_only = false, none);
        assert!(no_file.contains("since its last snapshot"), "{no_file}");
        let every_second =
            text(|redis| redis.persistence.append_fsync = Some(AppendFsync::EverySec), none);
        assert!(every_second.contains("CONFIG SET appendfsync always, or"), "{every_second}");
        let unsynced = text(|redis| redis.persistence.append_fsync = Some(AppendFsync::No), none);
        assert!(unsynced.contains("half minute"), "{unsynced}");
    }

    #[test]
    fn what_redis_does_not_tell_is_unknown_and_never_fine() {
        let none = PushConfirmation::default();
        let hidden = |redis: &mut RedisInfo| redis.persistence.append_fsync = None;
        assert_eq!(kinds(hidden, none), [RiskKind::Unknown]);
        let hidden = |redis: &mut RedisInfo| redis.maxmemory_policy.clear();
        assert_eq!(kinds(hidden, BOTH)[0], RiskKind::Unknown);
    }

    #[test]
    fn a_disk_that_is_confirmed_too_early_is_no_promise() {
        let of = |version: &str, valkey: &str, append_fsync| {
            kinds(
                |redis| {
                    (redis.version, redis.valkey_version) = (version.to_owned(), valkey.to_owned());
                    redis.replicas = 1;
                    redis.persistence.append_fsync = append_fsync;
                },
                BOTH,
            )
        };
        let everysec = Some(AppendFsync::EverySec);
        for (version, valkey, is_early) in [
            ("7.2.7", "", false),
            ("7.4.1", "", true),
            ("8.0.3", "", false),
            ("7.2.4", "7.2.8", false),
            ("7.2.4", "8.0.1", true),
        ] {
            let found = of(version, valkey, everysec);
            assert_eq!(found == [RiskKind::Loss], is_early, "{version} {valkey}: {found:?}");
        }
        assert_eq!(of("7.2.4", "8.0.1", Some(AppendFsync::Always)), []);
        let mut redis = healthy();
        (redis.valkey_version, redis.replicas) = ("8.1.0".to_owned(), 1);
        redis.persistence.append_fsync = everysec;
        let sentence = risks(&redis, BOTH)[0].sentence();
        assert!(sentence.contains("a second before its sync"), "{sentence}");
        assert!(sentence.ends_with("always, on the replicas as well"), "{sentence}");
    }

    #[test]
    fn the_safe_count_is_every_replica() {
        let wait = |replicas| PushConfirmation { disk: true, replicas };
        let two = |redis: &mut RedisInfo| redis.replicas = 2;
        let sentence = text(two, wait(1));
        assert!(sentence.contains("pushes wait for 1"), "{sentence}");
        assert!(sentence.contains("replicas = 2, the count that is safe with 2"), "{sentence}");
        assert_eq!(kinds(two, wait(2)), []);
        assert_eq!(kinds(two, wait(3)), [RiskKind::Rejected]);
        let asynchronous = |redis: &mut RedisInfo| {
            two(redis);
            redis.requires_replicas = true;
        };
        assert_eq!(kinds(asynchronous, wait(0)), [RiskKind::Loss]);
        assert_eq!(kinds(two, wait(0)), [RiskKind::Loss, RiskKind::Loss]);
    }

    #[test]
    fn an_old_redis_can_not_confirm_its_disk() {
        let disk = PushConfirmation { disk: true, replicas: 0 };
        for (version, is_rejected) in
            [("6.2.14", true), ("7.0.15", true), ("7.2.4", false), ("8.0.1", false), ("", false)]
        {
            let old = kinds(|redis| redis.version = version.to_owned(), disk);
            assert_eq!(old == [RiskKind::Rejected], is_rejected, "{version}");
        }
        assert_eq!(
            kinds(|redis| redis.version = "7.0.15".to_owned(), PushConfirmation::default()),
            []
        );
    }
}
