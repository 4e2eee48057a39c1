//! One attempt: what it needs to be, and how it fails.

use std::future::Future;
use std::sync::Arc;

use weir_net::post::{EndpointUrl, Post, PostError, PostSettings, Poster};

use super::metrics::FailureReason;
use super::settings::WebhookSettings;

/// Makes transports; one per endpoint.
pub(super) trait EndpointOpener: Send + 'static {
    type Transport: Transport;

    fn open(&self, url: &EndpointUrl) -> Self::Transport;
}

/// Takes requests to one endpoint, one at a time.
pub(super) trait Transport: Send + 'static {
    /// One attempt. Ends by itself, with its own timeouts.
    fn post(&mut self, post: Post) -> impl Future<Output = Result<(), AttemptError>> + Send;
}

impl Transport for Poster {
    async fn post(&mut self, post: Post) -> Result<(), AttemptError> {
        Ok(Self::post(self, post).await?)
    }
}

/// Opens connections with the common settings.
#[derive(Debug)]
pub(super) struct EndpointConnections(Arc<PostSettings>);

impl EndpointConnections {
    pub(super) fn new(settings: &WebhookSettings) -> Self {
        Self(Arc::new(PostSettings {
            section: "realtime.webhooks",
            connect_timeout: settings.connect_timeout,
            response_timeout: settings.response_timeout,
            keep_alive: settings.keep_alive,
            response_bytes_max: settings.limits.response_bytes_max,
            trust: settings.trust.clone(),
        }))
    }
}

impl EndpointOpener for EndpointConnections {
    type Transport = Poster;

    fn open(&self, url: &EndpointUrl) -> Poster {
        Poster::new(url.clone(), Arc::clone(&self.0))
    }
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    #[error(transparent)]
    Post(#[from] PostError),
    #[error("the app's key can't be sent in a header; use letters and digits")]
    Key,
}

impl AttemptError {
    pub(super) const fn reason(&self) -> FailureReason {
        match self {
            Self::Post(PostError::Connect(_)) => FailureReason::Connect,
            Self::Post(PostError::Tls(..)) => FailureReason::Tls,
            Self::Post(PostError::ConnectTimeout(_) | PostError::ResponseTimeout(_)) => {
                FailureReason::Timeout
            }
            Self::Post(PostError::Http(_)) => FailureReason::Http,
            Self::Post(PostError::Redirect(_) | PostError::Status(_)) => FailureReason::Status,
            Self::Key => FailureReason::Request,
        }
    }
}
