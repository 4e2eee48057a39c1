//! What jobs in Redis can't have. A job that asks for it is rejected, because its client relies on it.

use weir_jobs::model::NewJob;
use weir_jobs::store::StoreError;

/// Of a job that asks for a unique lock where locks can't be held in the step that stores the job.
pub(super) const NO_LOCKS: StoreError = StoreError::Unsupported(NO_UNIQUE_JOBS);

/// Why `custom.unique_for` can't be kept on a Redis Cluster and on several servers.
pub const NO_UNIQUE_JOBS: &str = "custom.unique_for needs one Redis server that is no cluster and no proxy before several servers, or the embedded store (jobs.store): here, a lock and its job would be on different servers";

const BATCH: StoreError = StoreError::Unsupported(
    "custom.bid is not supported for jobs in Redis: batches need the embedded store (jobs.store)",
);

/// Returns an error if a pushed job asks for what no store in Redis has.
pub(super) fn check_supported(jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
    let is_member = |job: &NewJob<'_>| job.custom.batch.is_some();
    if jobs.iter().any(is_member) { Err(BATCH) } else { Ok(()) }
}

/// The same, on several independent servers.
pub(super) fn check_supported_by_shards(jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
    check_supported(jobs)?;
    let is_unique = |job: &NewJob<'_>| job.custom.unique.is_some();
    if jobs.iter().any(is_unique) { Err(NO_LOCKS) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use weir_jobs::job::JobBatch;
    use weir_jobs::settings::JobServerLimits;

    use super::*;

    #[test]
    fn jobs_that_ask_for_more_are_rejected_by_name() {
        type Expected = Result<(), StoreError>;
        let check = |custom: &str, expected: Expected, of_shards: Expected| {
            let json =
                format!(r#"{{"jid":"job-00001","jobtype":"T","args":[],"custom":{custom}}}"#);
            let mut batch = JobBatch::new();
            batch.add(json.as_bytes(), Default::default(), &JobServerLimits::default()).unwrap();
            assert_eq!(check_supported(&batch.jobs()), expected, "{custom}");
            assert_eq!(check_supported_by_shards(&batch.jobs()), of_shards, "{custom}");
        };
        check("{}", Ok(()), Ok(()));
        check(r#"{"track":1,"expires_at":"2030-01-01T00:00:00Z"}"#, Ok(()), Ok(()));
        check(r#"{"unique_for":60}"#, Ok(()), Err(NO_LOCKS));
        check(r#"{"bid":"b-0000000000000001"}"#, Err(BATCH), Err(BATCH));
    }
}
