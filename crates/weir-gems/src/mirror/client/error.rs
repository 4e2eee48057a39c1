//! Why something could not be fetched.

use std::io;
use std::time::Duration;

use hyper::StatusCode;

use super::reach::Reach;
use super::{REDIRECTS_MAX, UpstreamUrlError};
use crate::metrics::FetchFailure;

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::mirror) enum FetchError {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error(
        "no TLS: {0}; if its certificate is from an authority of your own, name that one's file in \
         gems.mirror.ca"
    )]
    Tls(io::Error),
    #[error("no connection within gems.mirror.limits.connect_timeout")]
    ConnectTimeout,
    #[error("it was silent for longer than gems.mirror.limits.silence_timeout")]
    Silence,
    #[error("it took longer than it may (gems.mirror.limits.info_timeout, download_timeout)")]
    Late,
    #[error("no HTTP/1.1 answer: {0}")]
    Http(hyper::Error),
    #[error("the answer was {0}; are gems.mirror.upstreams.credentials right?")]
    Denied(StatusCode),
    #[error("the answer was {0}")]
    Status(StatusCode),
    #[error("the answer was {status}: it is too busy{}", again(.retry_after))]
    Busy { status: StatusCode, retry_after: Option<Duration> },
    #[error("it sends us on again and again, at last to {0:?}; we go on {REDIRECTS_MAX} times")]
    Redirect(String),
    #[error(
        "it sends us on to {to} ({reach}), which is nearer than the upstream itself, and where we \
         don't go; if that is meant, name {host} in gems.mirror.upstreams.redirect_hosts"
    )]
    Nearer { to: String, host: String, reach: Reach },
    #[error("a redirect: {0}")]
    RedirectUrl(#[from] UpstreamUrlError),
    #[error("the answer has more than {0} bytes (gems.mirror.limits)")]
    TooLong(u64),
    #[error("what it has told can't be sent back in a header")]
    Request,
    #[error("it has just failed, and is not asked again for a moment")]
    Down,
}

/// When to come again, if it has said so.
fn again(retry_after: &Option<Duration>) -> String {
    let told = |after: &Duration| format!(", and asks to come again in {} s", after.as_secs());
    retry_after.as_ref().map(told).unwrap_or_default()
}

impl FetchError {
    /// With what was asked for, unless the upstream was not reached at all.
    pub(in crate::mirror) fn told(&self, path: &str) -> String {
        match self {
            Self::Connect(_) | Self::Tls(_) | Self::ConnectTimeout | Self::Down => self.to_string(),
            _ => format!("{path}: {self}"),
        }
    }

    /// Whether the upstream itself is away, which may pass.
    pub(in crate::mirror) const fn is_outage(&self) -> bool {
        match self {
            Self::Connect(_)
            | Self::Tls(_)
            | Self::ConnectTimeout
            | Self::Silence
            | Self::Late
            | Self::Http(_)
            | Self::Busy { .. }
            | Self::Down => true,
            Self::Status(status) => status.as_u16() >= 500,
            Self::Denied(_)
            | Self::Redirect(_)
            | Self::Nearer { .. }
            | Self::RedirectUrl(_)
            | Self::TooLong(_)
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
            Self::Connect(_) | Self::Down => FetchFailure::Connect,
            Self::Tls(_) => FetchFailure::Tls,
            Self::ConnectTimeout | Self::Silence | Self::Late => FetchFailure::Timeout,
            Self::Http(_) => FetchFailure::Http,
            Self::Denied(_) | Self::Status(_) | Self::Busy { .. } => FetchFailure::Status,
            Self::Redirect(_) | Self::Nearer { .. } | Self::RedirectUrl(_) => {
                FetchFailure::Redirect
            }
            Self::TooLong(_) | Self::Request => FetchFailure::Content,
        }
    }
}
