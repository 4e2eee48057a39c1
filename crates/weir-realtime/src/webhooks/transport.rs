//! Transports to the endpoints.

use std::sync::Arc;

use weir_net::http_client::{ClientSettings, HttpUrl, TimeLimit};
use weir_net::webhook::{Receiver, Transport};

use super::settings::WebhookSettings;

/// Creates the transport of an endpoint.
pub(super) type OpenTransport = Box<dyn Fn(&HttpUrl) -> Box<dyn Transport> + Send + Sync>;

/// Returns a function that creates transports with the common settings.
pub(super) fn receivers(settings: &WebhookSettings) -> OpenTransport {
    type Names = WebhookSettings;
    let limit = |time, setting| Some(TimeLimit::new(time, setting));
    let settings = Arc::new(ClientSettings {
        trust: settings.trust.clone(),
        ca: Some(&Names::CA),
        connect_timeout: limit(settings.connect_timeout, &Names::CONNECT_TIMEOUT),
        response_timeout: limit(settings.response_timeout, &Names::RESPONSE_TIMEOUT),
        keep_alive: settings.keep_alive,
        head_bytes_max: settings.limits.response_bytes_max,
        ..ClientSettings::for_webhooks()
    });
    Box::new(move |url| Box::new(Receiver::new(url.clone(), Arc::clone(&settings))))
}
