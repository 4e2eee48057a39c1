//! `[[realtime.apps.webhooks]]`.

use std::sync::Arc;

use weir_base::secret::Secret;
use weir_realtime::webhooks::{Endpoint, EndpointUrl, ExtraHeaders, Kind, Kinds};

use super::super::super::keys::{Key, Keys};

/// One endpoint; None: it makes no sense, which is a mistake already.
pub(super) fn read(keys: &mut Keys<'_>) -> Option<Arc<Endpoint>> {
    let (mut url, mut prefix) = (None::<EndpointUrl>, String::new());
    let (mut kinds, mut headers) = (Vec::<Kind>::new(), Vec::new());
    keys.required_parsed(
        Key::live("url", "Required. Where events are posted: http:// or https://."),
        &mut url,
    );
    keys.parsed_texts(
        Key::live("events", "Which events: channel_occupied, channel_vacated, member_added, member_removed, client_event, cache_miss, subscription_count. Empty: all."),
        &mut kinds,
    );
    keys.text(
        Key::live("channel_prefix", "Only of channels whose names begin with this."),
        &mut prefix,
    );
    keys.secrets(
        Key::live("headers", "Added to each request: `{ Authorization = { env = \"NAME\" } }`; a value may also stand here as a text."),
        &mut headers,
    );
    let headers = to_headers(keys, &headers);
    let kinds = if kinds.is_empty() { Kinds::ALL } else { kinds.into_iter().collect() };
    let channel_prefix = prefix.into();
    Some(Arc::new(Endpoint { url: url?, kinds, channel_prefix, headers: headers? }))
}

fn to_headers(keys: &mut Keys<'_>, headers: &[(String, Secret)]) -> Option<ExtraHeaders> {
    let headers = headers.iter().map(|(name, value)| (name.as_str(), value.expose()));
    let headers = ExtraHeaders::new(headers);
    headers.inspect_err(|error| keys.error_at("headers", &error.to_string())).ok()
}
