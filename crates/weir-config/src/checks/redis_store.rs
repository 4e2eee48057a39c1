//! Settings that have no effect on the store at hand: those of the log in Redis, and the reverse.

use weir_jobs::settings::{JobServerLimits, JobServerSettings, StoreKind};
use weir_settings::{Setting, SettingValue};
use weir_sidekiq::store::RedisStoreSettings;

use super::super::jobs::Jobs;

const OF_REDIS: &str = "Redis decides when data is on its disk (appendfsync)";
const NO_LOG: &str = "there is no segment log";
const NO_LIMIT: &str = "Redis' maxmemory limits the jobs";

const NO_LOCKS: &str = "jobs on several servers can't be unique (custom.unique_for is rejected)";
const NO_BATCHES: &str = "BATCH is rejected on several servers";

const IGNORED: [(Setting, &str); 8] = [
    (JobServerSettings::FSYNC, OF_REDIS),
    (JobServerSettings::FSYNC_ACKS, OF_REDIS),
    (JobServerSettings::ACK_SYNC_MAX, OF_REDIS),
    (JobServerSettings::GATHER_WAIT, OF_REDIS),
    (JobServerLimits::SEGMENT_BYTES, NO_LOG),
    (JobServerLimits::RESERVE_BYTES, NO_LOG),
    (JobServerLimits::SET_ASIDE_BYTES_MAX, NO_LOG),
    (JobServerLimits::MEMORY_BYTES_MAX, NO_LIMIT),
];

/// The same on several servers.
const IGNORED_BY_SHARDS: [(Setting, &str); 6] = [
    (JobServerLimits::UNIQUE_LOCKS_MAX, NO_LOCKS),
    (JobServerLimits::BATCHES_MAX, NO_BATCHES),
    (JobServerLimits::BATCH_DEFINITION_BYTES_MAX, NO_BATCHES),
    (JobServerLimits::BATCH_MEMORY_BYTES_MAX, NO_BATCHES),
    (JobServerLimits::BATCH_COMMIT_TIMEOUT, NO_BATCHES),
    (JobServerLimits::BATCH_AGE_MAX, NO_BATCHES),
];

pub(super) fn warn(jobs: &Jobs, values: &[SettingValue], warnings: &mut Vec<String>) {
    let set = values.iter().filter(|value| value.is_set).map(|value| &value.path);
    if jobs.settings.store != StoreKind::External {
        let of_redis = set.filter(|path| {
            path.starts_with("jobs.redis.") || JobServerLimits::STORE_COMMANDS_MAX.is(path)
        });
        let why = "without jobs.store = { redis = [..] }";
        warnings.extend(of_redis.map(|path| format!("{path} has no effect {why}")));
        return;
    }
    if jobs.redis_shards.len() == 1 {
        let placement = set.clone().filter(|path| RedisStoreSettings::PLACEMENT.is(path));
        let why = "has no effect with one server in jobs.store";
        warnings.extend(placement.map(|path| format!("{path} {why}")));
    }
    let of_shards: &[_] = if jobs.redis_shards.len() > 1 { &IGNORED_BY_SHARDS } else { &[] };
    let ignored = || IGNORED.iter().chain(of_shards);
    let why = |path: &String| ignored().find(|(setting, _)| setting.is(path));
    let ignored = set.filter_map(|path| Some((path, why(path)?.1)));
    warnings
        .extend(ignored.map(|(path, why)| format!("{path} has no effect on jobs in Redis: {why}")));
}
