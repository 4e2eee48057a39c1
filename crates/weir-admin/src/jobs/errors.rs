//! Errors of jobs as HTTP responses, with their statuses.

use axum::http::StatusCode;
use weir_base::admin_api::AdminError;

use weir_jobs::handle::HandleError;
use weir_jobs::store::StoreError;

pub(super) fn no_such_job(jid: &str) -> AdminError {
    let hint = "it may be done already; an id is case-sensitive";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no job {jid:?}"), hint)
}

pub(super) fn no_such_batch(bid: &str) -> AdminError {
    let hint = "it may have ended: a batch that has succeeded is kept for jobs.limits.advanced.batch_commit_timeout";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no batch {bid:?}"), hint)
}

pub(super) fn no_such_worker(wid: &str) -> AdminError {
    let hint = "it may have stopped beating; GET workers lists those that beat";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no worker {wid:?}"), hint)
}

pub(super) fn no_task_id(text: &str) -> AdminError {
    let hint = "tasks are numbered: GET tasks lists them";
    AdminError::new(StatusCode::NOT_FOUND, format!("there is no task {text:?}"), hint)
}

pub(super) fn no_such_type(name: &str) -> AdminError {
    let hint = "the figures begin with each start of Weir; GET types lists the types that had a job since then";
    let text = format!("no job of the type {name:?} has started");
    AdminError::new(StatusCode::NOT_FOUND, text, hint)
}

/// Converts an error of a request for statistics by type.
pub(super) fn statistics_error(error: HandleError) -> AdminError {
    match error {
        HandleError::Invalid(text) => {
            let hint = "older figures are only in the totals";
            AdminError::new(StatusCode::BAD_REQUEST, text, hint)
        }
        error => handle_error(error),
    }
}

const PLACES: &str = "a place is scheduled, retries, dead or queue:NAME";

/// Converts an error of the job server's handle.
pub(crate) fn handle_error(error: HandleError) -> AdminError {
    let text = error.to_string();
    match error {
        HandleError::Gone => {
            let hint = "is it being restarted? try again";
            AdminError::new(StatusCode::SERVICE_UNAVAILABLE, text, hint)
        }
        HandleError::Busy => {
            let hint = "try again, or raise jobs.limits.admin_requests_max";
            AdminError::new(StatusCode::TOO_MANY_REQUESTS, text, hint)
        }
        HandleError::Time(_) => {
            let hint = "a time is RFC 3339, with a time zone";
            AdminError::new(StatusCode::BAD_REQUEST, text, hint)
        }
        HandleError::Invalid(_) => AdminError::new(StatusCode::BAD_REQUEST, text, PLACES),
        HandleError::NoCronJob(_) => {
            let hint = "weir jobs cron list shows them; each is a [[jobs.cron]] of the settings";
            AdminError::new(StatusCode::NOT_FOUND, text, hint)
        }
        HandleError::CronNotUnique(_) => {
            let hint = "wait until that job has ended, or delete it (weir jobs list, weir jobs delete): that frees the lock";
            AdminError::new(StatusCode::CONFLICT, text, hint)
        }
        HandleError::NotSearched { .. } => {
            let hint = "list the place where it may be: GET list?place=..";
            AdminError::new(StatusCode::NOT_FOUND, text, hint)
        }
        HandleError::NoSuchTask(_) => {
            let hint = "weir jobs tasks list shows those that run and the last ones that ended";
            AdminError::new(StatusCode::NOT_FOUND, text, hint)
        }
        HandleError::Limits(_) => AdminError::new(StatusCode::CONFLICT, text, ""),
        HandleError::TooManyTasks(_) => {
            let hint = "wait for one to end, or stop one: weir jobs tasks list shows them";
            AdminError::new(StatusCode::TOO_MANY_REQUESTS, text, hint)
        }
        HandleError::TaskState(_) => {
            let hint = "start another task for jobs that came later";
            AdminError::new(StatusCode::CONFLICT, text, hint)
        }
        HandleError::TaskNotSaved(_) => {
            let hint = "check the disk and the permissions of data_dir";
            AdminError::new(StatusCode::INSUFFICIENT_STORAGE, text, hint)
        }
        HandleError::Store(error) => AdminError::new(status(&error), text, hint(&error)),
    }
}

const fn status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::DiskFull | StoreError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        StoreError::Limit(_) => StatusCode::UNPROCESSABLE_ENTITY,
        StoreError::NotUnique => StatusCode::CONFLICT,
        StoreError::Unsupported(_) => StatusCode::NOT_IMPLEMENTED,
        StoreError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        StoreError::NotFound(_) | StoreError::NoSuchBatch(_) => StatusCode::NOT_FOUND,
        StoreError::Closed | StoreError::Unavailable(_) | StoreError::Uncertain(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

const fn hint(error: &StoreError) -> &'static str {
    match error {
        StoreError::DiskFull => "free space in data_dir",
        StoreError::Failed(_) => "see the log, check the disk, then restart",
        StoreError::Limit(_) => "the limit is a setting under [jobs.limits]",
        StoreError::NotUnique => "wait for the equal job, or push without unique_for",
        StoreError::NoSuchBatch(_) => "it may have expired; create it with BATCH NEW",
        StoreError::Unsupported(_) => {
            "docs/faktory-compatibility.md lists what each store supports"
        }
        StoreError::TooLarge { .. } => "keep large data elsewhere and put its address into the job",
        StoreError::NotFound(_) => "it may be done already",
        StoreError::Full(_) => "free memory there, or raise its limit",
        StoreError::Unavailable(_) => "weir status shows the state of the store",
        StoreError::Uncertain(_) => "look for its jid before pushing it again",
        StoreError::Closed => "is it being restarted? try again",
    }
}
