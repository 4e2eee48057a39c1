//! Errors of requests to an upstream.

use std::time::Duration;

use hyper::StatusCode;
use weir_net::http_client::{HttpError, HttpUrlError, Reach};

use super::REDIRECTS_MAX;
use crate::metrics::FetchFailure;

/// Reasons why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::mirror) enum FetchError {
    #[error(transparent)]
    Http(HttpError),
    #[error("the answer was {0}; are gems.mirror.upstreams.credentials right?")]
    Denied(StatusCode),
    #[error("the answer was {0}")]
    Status(StatusCode),
    #[error("the answer was {status}: it is too busy{}", again(.retry_after))]
    Busy { status: StatusCode, retry_after: Option<Duration> },
    #[error("it sends us on again and again, at last to {0:?}; we go on {REDIRECTS_MAX} times")]
    Redirect(String),
    #[error(
        "it sends us on to {host} ({reach}), which is nearer than the upstream itself, and where we \
         don't go; if that is meant, name {host} in gems.mirror.upstreams.redirect_hosts"
    )]
    Nearer { host: String, reach: Reach },
    #[error("a redirect: {0}")]
    RedirectUrl(#[from] HttpUrlError),
    #[error("what it has told can't be sent back in a header")]
    Request,
    #[error("it has just failed, and is not asked again for a moment")]
    Down,
}

impl From<HttpError> for FetchError {
    fn from(error: HttpError) -> Self {
        match error {
            // Only redirects have a limit on how local their target may be.
            HttpError::TooNear { host, reach } => Self::Nearer { host, reach },
            error => Self::Http(error),
        }
    }
}

/// Describes when the upstream asked us to retry, if it did.
fn again(retry_after: &Option<Duration>) -> String {
    let told = |after: &Duration| format!(", and asks to come again in {} s", after.as_secs());
    retry_after.as_ref().map(told).unwrap_or_default()
}

impl FetchError {
    /// Describes the error including the path, unless the upstream could not be reached at all.
    pub(in crate::mirror) fn told(&self, path: &str) -> String {
        match self {
            Self::Http(
                HttpError::Dns(_)
                | HttpError::Connect(_)
                | HttpError::Tls { .. }
                | HttpError::ConnectTimedOut(_),
            )
            | Self::Down => self.to_string(),
            _ => format!("{path}: {self}"),
        }
    }

    /// Returns whether the upstream itself is unavailable, which may be temporary.
    pub(in crate::mirror) const fn is_outage(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Down => true,
            Self::Http(error) => is_outage(error),
            Self::Status(status) => status.as_u16() >= 500,
            Self::Denied(_)
            | Self::Redirect(_)
            | Self::Nearer { .. }
            | Self::RedirectUrl(_)
            | Self::Request => false,
        }
    }

    pub(super) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    pub(in crate::mirror) const fn reason(&self) -> FetchFailure {
        match self {
            Self::Down => FetchFailure::Connect,
            Self::Http(error) => reason(error),
            Self::Denied(_) | Self::Status(_) | Self::Busy { .. } => FetchFailure::Status,
            Self::Redirect(_) | Self::Nearer { .. } | Self::RedirectUrl(_) => {
                FetchFailure::Redirect
            }
            Self::Request => FetchFailure::Content,
        }
    }
}

/// Returns whether the server itself is unavailable.
pub(super) const fn is_outage(error: &HttpError) -> bool {
    !matches!(error, HttpError::TooNear { .. } | HttpError::TooLarge(_))
}

pub(super) const fn reason(error: &HttpError) -> FetchFailure {
    match error {
        HttpError::Dns(_) | HttpError::Connect(_) => FetchFailure::Connect,
        HttpError::TooNear { .. } => FetchFailure::Redirect,
        HttpError::Tls { .. } => FetchFailure::Tls,
        HttpError::ConnectTimedOut(_) | HttpError::Silent(_) | HttpError::TimedOut(_) => {
            FetchFailure::Timeout
        }
        HttpError::Closed { .. } | HttpError::InvalidResponse(_) => FetchFailure::Http,
        HttpError::TooLarge(_) => FetchFailure::Content,
    }
}
