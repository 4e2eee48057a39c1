//! A batch as a signed request.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE as CONTENT_TYPE_HEADER, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use weir_base::clock::Timestamp;
use weir_net::post::Post;

use super::batch::EventBatch;
use super::transport::AttemptError;
use crate::pusher::signature::Token;
use crate::pusher::webhook::{CONTENT_TYPE, KEY_HEADER, SIGNATURE_HEADER, SignedBody};

/// Makes it anew for each attempt: receivers refuse bodies that were signed long ago.
pub(super) fn signed_request(batch: &EventBatch, now: Timestamp) -> Result<Post, AttemptError> {
    let (app, endpoint) = (&batch.destination.app, &batch.destination.endpoint);
    let token = Token { key: &app.key, secret: &app.secret };
    let signed = SignedBody::new(&token, now, batch.events.iter().map(|event| &*event.json));
    let mut request = Request::new(Full::new(Bytes::from(signed.body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = endpoint.url.target().clone();
    let headers = request.headers_mut();
    headers.insert(HOST, endpoint.url.authority().clone());
    headers.insert(CONTENT_TYPE_HEADER, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert(USER_AGENT, HeaderValue::from_static("weir"));
    endpoint.headers.add_to(headers);
    let header = |value: &str| HeaderValue::from_str(value).map_err(|_| AttemptError::Key);
    headers.insert(KEY_HEADER, header(&app.key)?);
    headers.insert(SIGNATURE_HEADER, header(&signed.signature)?);
    Ok(request)
}
