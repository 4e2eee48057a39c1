//! How an attempt fails.

use hyper::StatusCode;

use crate::http_client::HttpError;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum DeliveryError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the response was {0}; redirects are not followed, so write the URL that it names")]
    Redirect(StatusCode),
    #[error("the response was {0}; it must be 200, or another code from 200 to 299")]
    Status(StatusCode),
    #[error("{0} cannot be sent in a header; use letters and digits")]
    Header(&'static str),
}

/// Why attempts failed, as metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// Not looked up, refused, reset.
    Connect,
    /// No common version, or a certificate that isn't trusted.
    Tls,
    /// Connecting or responding took too long.
    Timeout,
    /// Not HTTP/1.1, cut off, or a head that is too large.
    Http,
    /// Anything but 2xx.
    Status,
    /// The request could not be made.
    Request,
}

impl DeliveryError {
    /// What it counts as.
    #[must_use]
    pub const fn reason(&self) -> FailureReason {
        match self {
            Self::Redirect(_) | Self::Status(_) => FailureReason::Status,
            Self::Header(_) => FailureReason::Request,
            Self::Http(error) => match error {
                HttpError::Dns(_) | HttpError::Connect(_) | HttpError::TooNear { .. } => {
                    FailureReason::Connect
                }
                HttpError::Tls { .. } => FailureReason::Tls,
                HttpError::ConnectTimedOut(_) | HttpError::Silent(_) | HttpError::TimedOut(_) => {
                    FailureReason::Timeout
                }
                HttpError::Closed { .. }
                | HttpError::InvalidResponse(_)
                | HttpError::TooLarge(_) => FailureReason::Http,
            },
        }
    }
}

impl FailureReason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Connect, Self::Tls, Self::Timeout, Self::Http, Self::Status, Self::Request];

    /// The label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::Http => "http",
            Self::Status => "status",
            Self::Request => "request",
        }
    }
}
