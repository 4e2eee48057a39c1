//! A batch as a signed HTTP request.

use hyper::header::HeaderValue;
use weir_base::clock::Timestamp;
use weir_net::http_client::HttpRequest;
use weir_net::webhook::{DeliveryError, json_post};

use super::batch::EventBatch;
use crate::pusher::signature::Token;
use crate::pusher::webhook::{KEY_HEADER, SIGNATURE_HEADER, SignedBody};

/// Returns a new request for each attempt: receivers reject bodies that were signed long ago.
pub(super) fn signed_request(
    batch: &EventBatch,
    now: Timestamp,
) -> Result<HttpRequest, DeliveryError> {
    let (app, endpoint) = (&batch.destination.app, &batch.destination.endpoint);
    let token = Token { key: &app.key, secret: &app.secret };
    let signed = SignedBody::new(&token, now, batch.events.iter().map(|event| &*event.json));
    let mut request = json_post(&endpoint.url, signed.body);
    endpoint.headers.add_to(&mut request.headers);
    let header = |value: &str| {
        HeaderValue::from_str(value).map_err(|_| DeliveryError::Header("the app's key"))
    };
    request.headers.insert(KEY_HEADER, header(&app.key)?);
    request.headers.insert(SIGNATURE_HEADER, header(&signed.signature)?);
    Ok(request)
}
