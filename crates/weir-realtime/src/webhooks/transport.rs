//! One attempt: what it needs to be, and how it fails.

use std::future::Future;
use std::io;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, StatusCode};

use super::endpoint_url::EndpointUrl;
use super::metrics::FailureReason;

pub(super) type Post = Request<Full<Bytes>>;

/// Makes transports; one per endpoint.
pub(super) trait Open: Send + 'static {
    type Transport: Transport;

    fn open(&self, url: &EndpointUrl) -> Self::Transport;
}

/// Takes requests to one endpoint, one at a time.
pub(super) trait Transport: Send + 'static {
    /// One attempt. Ends by itself, with its own timeouts.
    fn post(&mut self, post: Post) -> impl Future<Output = Result<(), AttemptError>> + Send;
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    #[error("cannot connect: {0}; is the receiver running, and is the URL right?")]
    Connect(io::Error),
    #[error(
        "no TLS: {0}; if the receiver's certificate is from an authority of your own, name its \
         file in realtime.webhooks.ca"
    )]
    Tls(io::Error),
    #[error("no connection within realtime.webhooks.connect_timeout")]
    ConnectTimeout,
    #[error("no response within realtime.webhooks.response_timeout")]
    ResponseTimeout,
    #[error("no HTTP/1.1 response: {0}")]
    Http(hyper::Error),
    #[error("the answer was {0}; redirects are not followed, so write the URL that it names")]
    Redirect(StatusCode),
    #[error("the answer was {0}; it must be 200, or another code from 200 to 299")]
    Status(StatusCode),
    #[error("the app's key can't be sent in a header; use letters and digits")]
    Key,
}

impl AttemptError {
    pub(super) const fn reason(&self) -> FailureReason {
        match self {
            Self::Connect(_) => FailureReason::Connect,
            Self::Tls(_) => FailureReason::Tls,
            Self::ConnectTimeout | Self::ResponseTimeout => FailureReason::Timeout,
            Self::Http(_) => FailureReason::Http,
            Self::Redirect(_) | Self::Status(_) => FailureReason::Status,
            Self::Key => FailureReason::Request,
        }
    }
}
