//! What jobs in Redis can't have. A job that asks for it is rejected, because its client relies on it.

use weir_jobs::custom::CustomMembers;
use weir_jobs::model::NewJob;
use weir_jobs::store::StoreError;

const UNIQUE: StoreError = StoreError::Unsupported(
    "custom.unique_for is not supported for jobs in Redis: it needs the embedded store (jobs.store)",
);

const BATCH: StoreError = StoreError::Unsupported(
    "custom.bid is not supported for jobs in Redis: batches need the embedded store (jobs.store)",
);

/// Returns an error if a pushed job asks for what this store lacks.
pub(super) fn check_supported(jobs: &[NewJob<'_>]) -> Result<(), StoreError> {
    let unsupported = jobs.iter().find_map(|job| match job.custom {
        CustomMembers { unique: Some(_), .. } => Some(UNIQUE),
        CustomMembers { batch: Some(_), .. } => Some(BATCH),
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
        check(r#"{"unique_for":60}"#, Err(UNIQUE));
        check(r#"{"bid":"b-0000000000000001"}"#, Err(BATCH));
    }
}
