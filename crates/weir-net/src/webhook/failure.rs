//! Why an attempt to deliver fails.

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

/// The classes of failed attempts, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureReason {
    /// The host was not found, or the connection was refused or reset.
    Connect,
    /// TLS failed: there was no common version, or the certificate is not trusted.
    Tls,
    /// Connecting or responding took too long.
    Timeout,
    /// The response was not HTTP/1.1, ended early, or had a head that is too long.
    Http,
    /// The status was not 2xx.
    Status,
    /// The request could not be created.
    Request,
}

impl DeliveryError {
    /// Returns the class of the error.
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
    /// All classes.
    pub const ALL: [Self; 6] =
        [Self::Connect, Self::Tls, Self::Timeout, Self::Http, Self::Status, Self::Request];

    /// Returns the value of the label.
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
