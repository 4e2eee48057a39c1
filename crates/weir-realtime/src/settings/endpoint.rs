//! Settings of a webhook endpoint: `[[realtime.apps.webhooks]]`.

use std::sync::Arc;

use weir_base::secret::Secret;
use weir_settings::{Section, TableReader};

use crate::webhooks::{ExtraHeaders, HttpUrl, Kinds, WebhookEndpoint, WebhookKind};

/// An endpoint as the file has it.
#[derive(Debug, Section)]
#[section(reload, path = "realtime.apps.webhooks")]
pub(super) struct EndpointSettings {
    /// Required. Where events are posted: http:// or https://.
    #[setting(required_parsed)]
    url: Option<HttpUrl>,
    /// Which events: channel_occupied, channel_vacated, member_added, member_removed, client_event,
    /// cache_miss, subscription_count. Empty: all.
    #[setting(parsed_texts)]
    events: Vec<WebhookKind>,
    /// Limits events to channels whose names begin with this.
    channel_prefix: String,
    /// Added to each request: `{ Authorization = { env = "NAME" } }`; a value may also be written
    /// here as a text.
    #[setting(secrets)]
    headers: Vec<(String, Secret)>,
}

/// Reads one endpoint. Returns None if its URL or headers are invalid, which is already reported as
/// an error.
pub(super) fn read(table: &mut TableReader<'_>) -> Option<Arc<WebhookEndpoint>> {
    let mut settings = EndpointSettings::default();
    settings.read(table);
    let EndpointSettings { url, events, channel_prefix, headers } = settings;
    let headers = to_headers(table, &headers);
    let kinds = if events.is_empty() { Kinds::ALL } else { events.into_iter().collect() };
    let channel_prefix = channel_prefix.into();
    Some(Arc::new(WebhookEndpoint { url: url?, kinds, channel_prefix, headers: headers? }))
}

fn to_headers(table: &mut TableReader<'_>, headers: &[(String, Secret)]) -> Option<ExtraHeaders> {
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
    let headers = ExtraHeaders::new(headers);
    headers.inspect_err(|error| table.error_at("headers", &error.to_string())).ok()
}
