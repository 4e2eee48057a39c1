//! A request of the HTTP client.

use bytes::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Uri};

use super::Deadline;

/// A request to the client's server; the client adds `Host`.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: Method,
    /// Path and query.
    pub target: Uri,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether it may be sent again if an idle connection ends without a response: servers close
    /// idle connections at any time, even while a request is being sent.
    pub is_repeatable: bool,
    /// The deadline of the whole request, connecting included.
    pub deadline: Option<Deadline>,
}

impl HttpRequest {
    /// Creates a repeatable request without headers and without a deadline.
    #[must_use]
    pub fn new(method: Method, target: Uri, body: Bytes) -> Self {
        let headers = HeaderMap::new();
        Self { method, target, headers, body, is_repeatable: true, deadline: None }
    }
}
