//! Who is told what, as the settings say.

use std::sync::Arc;

use weir_base::secret::Secret;
use weir_net::http_client::HttpUrl;

use super::extra_headers::ExtraHeaders;
use super::kind::{Kinds, WebhookKind};

/// The endpoints of one app, and what signs their requests. A reload makes a new one; what is
/// queued is then signed with the newest that an event came with.
#[derive(Clone, Debug)]
pub struct AppHooks {
    /// Tells apps apart, also over a reload.
    pub app_id: Arc<str>,
    /// The header `X-Pusher-Key`.
    pub key: Arc<str>,
    /// Signs.
    pub secret: Secret,
    pub endpoints: Vec<Arc<WebhookEndpoint>>,
}

/// One receiver. What was queued for it follows it over a reload as long as app, URL and prefix
/// stay the same.
#[derive(Clone, Debug)]
pub struct WebhookEndpoint {
    pub url: HttpUrl,
    /// Which events it gets.
    pub kinds: Kinds,
    /// Only of channels whose names begin with this. Empty: of all.
    pub channel_prefix: Box<str>,
    pub headers: ExtraHeaders,
}

impl AppHooks {
    /// Nobody is told anything.
    #[must_use]
    pub fn none(app_id: Arc<str>, key: Arc<str>, secret: Secret) -> Self {
        Self { app_id, key, secret, endpoints: Vec::new() }
    }

    /// Whether events of this kind are of any use to anybody, be it to take others back.
    pub(super) fn concern(&self, kind: WebhookKind) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.kinds.concern(kind))
    }

    /// The same, of one channel.
    pub(super) fn concern_channel(&self, kind: WebhookKind, channel: &str) -> bool {
        let mut endpoints = self.endpoints.iter();
        endpoints.any(|endpoint| endpoint.kinds.concern(kind) && endpoint.covers(channel))
    }
}

impl WebhookEndpoint {
    /// Whether an event is sent to it.
    pub(super) fn wants(&self, kind: WebhookKind, channel: &str) -> bool {
        self.kinds.contains(kind) && self.covers(channel)
    }

    fn covers(&self, channel: &str) -> bool {
        channel.starts_with(&*self.channel_prefix)
    }
}
