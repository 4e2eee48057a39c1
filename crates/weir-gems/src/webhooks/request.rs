//! Builds a signed request for an event.

use hmac::{Hmac, KeyInit, Mac};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use weir_base::secret::Secret;
use weir_net::http_client::HttpRequest;
use weir_net::webhook::json_post;

use super::release_json::with_addresses;
use super::settings::WebhookEndpoint;
use crate::store::webhooks::WebhookEvent;

/// HMAC-SHA256 of the body, in hex.
const SIGNATURE: HeaderName = HeaderName::from_static("x-weir-signature");
/// `push` or `yank`.
const EVENT: HeaderName = HeaderName::from_static("x-weir-event");
/// Id of the event: equal for all attempts, and greater for each later event.
const DELIVERY: HeaderName = HeaderName::from_static("x-weir-delivery");

pub(super) fn signed(
    event: &WebhookEvent,
    endpoint: &WebhookEndpoint,
    public_url: Option<&str>,
) -> HttpRequest {
    let body = with_addresses(&event.release, &full_name(event), public_url);
    let signature = signature(&endpoint.secret, body.as_bytes());
    let mut request = json_post(&endpoint.url, body);
    let headers = &mut request.headers;
    headers.insert(EVENT, HeaderValue::from_static(event.change.name()));
    headers.insert(DELIVERY, HeaderValue::from(event.id));
    // This can't fail: hex digits are a valid header value.
    if let Ok(signature) = HeaderValue::from_str(&signature) {
        headers.insert(SIGNATURE, signature);
    }
    let authorization = endpoint.api_key.as_ref().map(|key| authorization(event, key));
    if let Some(Ok(mut value)) = authorization.as_deref().map(HeaderValue::from_str) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    request
}

fn full_name(event: &WebhookEvent) -> String {
    let WebhookEvent { name, number, platform, .. } = event;
    match platform.as_str() {
        "ruby" => format!("{name}-{number}"),
        platform => format!("{name}-{number}-{platform}"),
    }
}

fn signature(secret: &Secret, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
        .expect("HMAC takes keys of any length");
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}

/// Returns the `Authorization` of rubygems.org, which authenticates the sender: the digest of name,
/// version and key.
fn authorization(event: &WebhookEvent, key: &Secret) -> String {
    let mut digest = Sha256::new();
    for part in [event.name.as_str(), event.number.as_str(), key.expose()] {
        digest.update(part.as_bytes());
    }
    hex::encode(digest.finalize())
}

#[cfg(test)]
mod tests {
    use weir_base::clock::Timestamp;

    use super::*;
    use crate::index::versions::Change;

    #[test]
    fn a_request_proves_who_sent_it() {
        let event = WebhookEvent {
            id: 7,
            change: Change::Yanked,
            name: "shop".to_owned(),
            number: "1.0".to_owned(),
            platform: "ruby".to_owned(),
            at: Timestamp::default(),
            release: "{}".to_owned(),
        };
        let url = "http://ci.example:8000/hooks?a=b".parse().unwrap();
        let mut endpoint = WebhookEndpoint::new("ci", url, Secret::new("secret"));
        endpoint.api_key = Some(Secret::new("key"));
        let request = signed(&event, &endpoint, Some("http://gems"));
        let header = |name: &str| request.headers[name].to_str().unwrap();
        assert_eq!(request.target.to_string(), "/hooks?a=b");
        assert_eq!(header("x-weir-event"), "yank");
        assert_eq!(header("x-weir-delivery"), "7");
        // Computed with: printf '%s' BODY | openssl dgst -sha256 -hmac secret; printf shop1.0key |
        // sha256sum
        assert_eq!(
            header("x-weir-signature"),
            "149c77f778d571701ea29900f0736cc6d908ab67299f8849c335421a694d996b"
        );
        assert_eq!(
            header("authorization"),
            "b6f199f2b3ac59b12e45d41195216e8a9544e707b4efe3a2b13969c2540de80c"
        );
    }
}
