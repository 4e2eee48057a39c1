//! A request.

use bytes::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Uri};

use super::Deadline;

/// A request to whatever server a client is for: the client adds `Host`.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: Method,
    /// Path and query.
    pub target: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether it may be sent again when a kept connection ends without a response: servers close
    /// idle connections at any time, also while a request is on its way.
    pub is_repeatable: bool,
    /// For all of it, connecting included.
    pub deadline: Option<Deadline>,
}

impl HttpRequest {
    /// A repeatable request without headers and without a deadline.
    #[must_use]
    pub fn new(method: Method, target: Uri, body: Bytes) -> Self {
        let headers = HeaderMap::new();
        Self { method, target, headers, body, is_repeatable: true, deadline: None }
    }
}
