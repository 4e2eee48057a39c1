//! The endpoints of an app, from the settings.

use std::sync::Arc;

use weir_base::secret::Secret;
use weir_net::http_client::HttpUrl;

use super::extra_headers::ExtraHeaders;
use super::kind::{Kinds, WebhookKind};

/// The endpoints of one app, and the key and secret that sign their requests. A reload creates a
/// new one. Queued events are signed with the one that arrived with the newest event.
#[derive(Clone, Debug)]
pub struct AppHooks {
    /// Identifies the app, also across reloads.
    pub app_id: Arc<str>,
    /// The value of the header `X-Pusher-Key`.
    pub key: Arc<str>,
    /// The secret that signs requests.
    pub secret: Secret,
    pub endpoints: Vec<Arc<WebhookEndpoint>>,
}

/// One receiver. Across a reload, it keeps its queued events if app, URL and prefix are unchanged.
#[derive(Clone, Debug)]
pub struct WebhookEndpoint {
    pub url: HttpUrl,
    /// The kinds of events that it receives.
    pub kinds: Kinds,
    /// Prefix of the names of the channels whose events it receives. Empty for all channels.
    pub channel_prefix: Box<str>,
    pub headers: ExtraHeaders,
}

impl AppHooks {
    /// Returns hooks without endpoints.
    #[must_use]
    pub fn without_endpoints(app_id: Arc<str>, key: Arc<str>, secret: Secret) -> Self {
        Self { app_id, key, secret, endpoints: Vec::new() }
    }

    /// Returns whether any endpoint receives events of this kind, or of the kind that they cancel.
    pub(super) fn has_endpoint_for(&self, kind: WebhookKind) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.kinds.contains_or_cancels(kind))
    }

    /// Returns the same for one channel.
    pub(crate) fn has_endpoint_for_channel(&self, kind: WebhookKind, channel: &str) -> bool {
        let mut endpoints = self.endpoints.iter();
        endpoints
            .any(|endpoint| endpoint.kinds.contains_or_cancels(kind) && endpoint.covers(channel))
    }
}

impl WebhookEndpoint {
    /// Returns whether the endpoint receives this event.
    pub(super) fn accepts(&self, kind: WebhookKind, channel: &str) -> bool {
        self.kinds.contains(kind) && self.covers(channel)
    }

    fn covers(&self, channel: &str) -> bool {
        channel.starts_with(&*self.channel_prefix)
    }
}
