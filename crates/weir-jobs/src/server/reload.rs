//! Applies changed settings to a running server, except those that need a restart.

use super::{JobService, leased_limits};
use crate::settings::{JobServerLimits, JobServerSettings};
use crate::store::Store;

/// Applies `new`. Returns the names of the changed settings that need a restart; they keep their
/// old values.
pub(super) fn reload<S: Store>(service: &JobService<S>, mut new: JobServerSettings) -> Vec<String> {
    let old = service.settings();
    let needing_restart = restore_fixed(&old, &mut new);
    super::descriptors::limit_connections(&mut new.limits);
    service.set_settings(new);
    leased_limits::allocate(service);
    needing_restart
}

/// Restores the old values of the settings with which the store, the log or the metrics were built.
fn restore_fixed(old: &JobServerSettings, new: &mut JobServerSettings) -> Vec<String> {
    let mut needing_restart = Vec::new();
    macro_rules! keep {
        ($($path:ident).+, $name:expr) => {
            if new.$($path).+ != old.$($path).+ {
                new.$($path).+ = old.$($path).+.clone();
                needing_restart.push($name.to_string());
            }
        };
    }
    keep!(store, JobServerSettings::STORE);
    keep!(directory, "jobs.directory");
    keep!(fsync, JobServerSettings::FSYNC);
    keep!(fsync_acks, JobServerSettings::FSYNC_ACKS);
    keep!(ack_sync_max, JobServerSettings::ACK_SYNC_MAX);
    keep!(gather_wait, JobServerSettings::GATHER_WAIT);
    keep!(limits.waiting_fetches_max, JobServerLimits::WAITING_FETCHES_MAX);
    keep!(limits.queues_max, JobServerLimits::QUEUES_MAX);
    keep!(limits.dead_jobs_max, JobServerLimits::DEAD_JOBS_MAX);
    keep!(limits.dead_age_max, JobServerLimits::DEAD_AGE_MAX);
    keep!(limits.returns_max, JobServerLimits::RETURNS_MAX);
    keep!(limits.segment_bytes, JobServerLimits::SEGMENT_BYTES);
    keep!(limits.reserve_bytes, JobServerLimits::RESERVE_BYTES);
    keep!(limits.set_aside_bytes_max, JobServerLimits::SET_ASIDE_BYTES_MAX);
    keep!(limits.unconfirmed_jobs_max, JobServerLimits::UNCONFIRMED_JOBS_MAX);
    keep!(limits.push_memory_jobs_max, JobServerLimits::PUSH_MEMORY_JOBS_MAX);
    keep!(limits.unique_locks_max, JobServerLimits::UNIQUE_LOCKS_MAX);
    keep!(limits.tenants_max, JobServerLimits::TENANTS_MAX);
    keep!(limits.tracks_max, JobServerLimits::TRACKS_MAX);
    keep!(limits.track_age_max, JobServerLimits::TRACK_AGE_MAX);
    keep!(limits.batches_max, JobServerLimits::BATCHES_MAX);
    keep!(limits.batch_memory_bytes_max, JobServerLimits::BATCH_MEMORY_BYTES_MAX);
    keep!(limits.batch_commit_timeout, JobServerLimits::BATCH_COMMIT_TIMEOUT);
    keep!(limits.batch_age_max, JobServerLimits::BATCH_AGE_MAX);
    keep!(limits.admin_requests_max, JobServerLimits::ADMIN_REQUESTS_MAX);
    keep!(limits.metrics_queues_max, JobServerLimits::METRICS_QUEUES_MAX);
    keep!(limits.job_types_max, JobServerLimits::JOB_TYPES_MAX);
    keep!(limits.job_type_groups_max, JobServerLimits::JOB_TYPE_GROUPS_MAX);
    keep!(limits.metrics_classes_max, JobServerLimits::METRICS_CLASSES_MAX);
    needing_restart
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Fsync;
    use std::time::Duration;

    #[test]
    fn fixed_settings_are_kept_and_reported() {
        let old = JobServerSettings::default();
        let mut new = JobServerSettings {
            fsync: Fsync::Never,
            allow_flush: true,
            ..JobServerSettings::default()
        };
        new.limits.queues_max = 7;
        new.limits.waiting_fetches_max = 5;
        new.limits.fetch_wait = Duration::from_secs(9);
        assert_eq!(
            restore_fixed(&old, &mut new),
            ["jobs.fsync", "jobs.limits.waiting_fetches_max", "jobs.limits.advanced.queues_max"]
        );
        assert_eq!((new.fsync, new.limits.queues_max), (old.fsync, old.limits.queues_max));
        assert!(new.allow_flush, "what can be reloaded is");
        assert_eq!(new.limits.fetch_wait, Duration::from_secs(9));
    }
}
