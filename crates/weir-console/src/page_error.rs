//! Errors of the console's handlers. This is the only place that turns them into responses.

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use weir_access::ForbiddenError;
use weir_jobs::handle::HandleError;
use weir_jobs::store::StoreError;
use weir_realtime::operations::OperationError;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PageError {
    #[error("{0}")]
    JobServer(#[from] HandleError),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Invalid(String),
    #[error(
        "the form is older than the last restart or login; go back, reload the page and try again"
    )]
    StaleForm,
    #[error("the form could not be read: {0} (console.limits.advanced.body_bytes_max)")]
    FormRejected(String),
    #[error("log in first")]
    NotLoggedIn,
    #[error(
        "{0}; an admin can change the role in weir.toml (console.users), or log in as another user"
    )]
    Forbidden(ForbiddenError),
    #[error("{0}")]
    Unavailable(String),
    #[error(
        "too many live streams are open (console.limits.advanced.streams_max); close a tab or wait"
    )]
    TooManyStreams,
}

impl PageError {
    /// Returns the error for a page of jobs where jobs are not served.
    pub(crate) fn no_jobs() -> Self {
        let reason = "jobs are not served by this Weir: it was started with --only, without jobs";
        Self::NotFound(reason.to_owned())
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::JobServer(
                HandleError::Gone
                | HandleError::Busy
                | HandleError::TooManyTasks(_)
                | HandleError::Store(StoreError::Unavailable(_) | StoreError::Uncertain(_)),
            )
            | Self::Unavailable(_)
            | Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
            Self::JobServer(
                HandleError::TaskNotSaved(_)
                | HandleError::Store(StoreError::DiskFull | StoreError::Full(_)),
            ) => StatusCode::INSUFFICIENT_STORAGE,
            Self::JobServer(HandleError::Store(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::JobServer(HandleError::Invalid(_) | HandleError::Time(_)) | Self::Invalid(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::JobServer(
                HandleError::CronNotUnique(_) | HandleError::TaskState(_) | HandleError::Limits(_),
            ) => StatusCode::CONFLICT,
            Self::JobServer(
                HandleError::NotSearched { .. }
                | HandleError::NoCronJob(_)
                | HandleError::NoSuchTask(_),
            )
            | Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::StaleForm | Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::FormRejected(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotLoggedIn => StatusCode::UNAUTHORIZED,
        }
    }
}

impl IntoResponse for PageError {
    /// Responds with text, and attaches the error for the page that browsers are shown.
    fn into_response(self) -> Response {
        let status = self.status();
        let mut response = (status, format!("{self}\n")).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<OperationError> for PageError {
    fn from(error: OperationError) -> Self {
        use OperationError as E;
        let text = error.to_string();
        match error {
            E::NoSuchApp { .. } | E::NoSuchUser(_) | E::NoSuchConnection { .. } => {
                Self::NotFound(text)
            }
            E::AppDisabled(_) | E::Channel(_) | E::Event(_) | E::Data(_) | E::SocketId(_) => {
                Self::Invalid(text)
            }
            E::Refused(_) | E::TooManyWatchers { .. } => Self::Unavailable(text),
        }
    }
}
