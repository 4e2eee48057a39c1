//! What went wrong, as an HTTP answer: the one place where errors become statuses.

use axum::http::StatusCode;
use weir_base::admin_api::AdminError;

use crate::handle::HandleError;
use crate::store::StoreError;

pub(super) fn no_such_job(jid: &str) -> AdminError {
    let hint = "it may be done already; an id is case-sensitive";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no job {jid:?}"), hint)
}

pub(super) fn no_such_worker(wid: &str) -> AdminError {
    let hint = "it may have stopped beating; GET workers lists those that beat";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no worker {wid:?}"), hint)
}

const PLACES: &str = "a place is scheduled, retries, dead or queue:NAME";

impl From<HandleError> for AdminError {
    fn from(error: HandleError) -> Self {
        let text = error.to_string();
        match error {
            HandleError::Gone => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, text, "is it being restarted? try again")
            }
            HandleError::Busy => {
                let hint = "try again, or raise jobs.limits.admin_requests_max";
                Self::new(StatusCode::TOO_MANY_REQUESTS, text, hint)
            }
            HandleError::Invalid(_) => Self::new(StatusCode::BAD_REQUEST, text, PLACES),
            HandleError::Store(error) => Self::new(status(&error), text, hint(&error)),
        }
    }
}

const fn status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        StoreError::Limit(_) => StatusCode::UNPROCESSABLE_ENTITY,
        StoreError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        StoreError::NotFound(_) => StatusCode::NOT_FOUND,
        StoreError::Closed => StatusCode::SERVICE_UNAVAILABLE,
    }
}

const fn hint(error: &StoreError) -> &'static str {
    match error {
        StoreError::DiskFull => "free space in data_dir",
        StoreError::Failed(_) => "see the log, check the disk, then restart",
        StoreError::Limit(_) => "the limit is a setting under [jobs.limits]",
        StoreError::TooLarge { .. } => "keep large data elsewhere and put its address into the job",
        StoreError::NotFound(_) => "it may be done already",
        StoreError::Closed => "is it being restarted? try again",
    }
}
