//! What jobs on several servers can't have. A job that asks for it is rejected, because its client relies on it.

use weir_jobs::custom::CustomMembers;
use weir_jobs::model::NewJob;
use weir_jobs::store::StoreError;

/// Of a job that asks for a unique lock where locks can't be held in the step that stores the job.
pub(super) const NO_LOCKS: StoreError = StoreError::Unsupported(NO_UNIQUE_JOBS);

/// Why `custom.unique_for` can't be kept on a Redis Cluster and on several servers.
pub const NO_UNIQUE_JOBS: &str = "custom.unique_for needs one Redis server that is no cluster and no proxy before several servers, or the embedded store (jobs.store): here, a lock and its job would be on different servers";

/// Of a job that belongs to a batch, and of BATCH, where they can't be counted in one step.
pub(super) const NO_BATCHES: StoreError = StoreError::Unsupported(NO_BATCHES_OF_JOBS);

/// Why BATCH can't be kept on a Redis Cluster and on several servers.
pub const NO_BATCHES_OF_JOBS: &str = "BATCH and custom.bid need one Redis server that is no cluster and no proxy before several servers, or the embedded store (jobs.store): here, a batch and its jobs would be on different servers";

/// Returns an error if a pushed job asks for what needs one server.
pub(super) fn check_supported(jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
    let unsupported = jobs.iter().find_map(|job| match job.custom {
        CustomMembers { unique: Some(_), .. } => Some(NO_LOCKS),
        CustomMembers { batch: Some(_), .. } => Some(NO_BATCHES),
        _ => None,
    });
    unsupported.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use weir_jobs::job::JobBatch;
    use weir_jobs::settings::JobServerLimits;

    use super::*;

    #[test]
    fn jobs_that_ask_for_more_are_rejected_by_name() {
        let check = |custom: &str, expected: Result<(), StoreError>| {
            let json =
                format!(r#"{{"jid":"job-00001","jobtype":"T","args":[],"custom":{custom}}}"#);
            let mut batch = JobBatch::new();
            batch.add(json.as_bytes(), Default::default(), &JobServerLimits::default()).unwrap();
            assert_eq!(check_supported(&batch.jobs()), expected, "{custom}");
        };
        check("{}", Ok(()));
        check(r#"{"track":1,"expires_at":"2030-01-01T00:00:00Z"}"#, Ok(()));
        check(r#"{"unique_for":60}"#, Err(NO_LOCKS));
        check(r#"{"bid":"b-0000000000000001"}"#, Err(NO_BATCHES));
    }
}
