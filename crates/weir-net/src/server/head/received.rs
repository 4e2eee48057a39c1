//! A request that hyper has parsed, as a [`HttpRequestHead`].

use httparse::Header;
use hyper::{Request, Version};

use super::HttpRequestHead;

/// The parts of a request that hyper has parsed, for a [`HttpRequestHead`] that borrows them.
pub(in crate::server) struct Received {
    request: Box<Request<()>>,
    target: String,
}

impl Received {
    pub(in crate::server) fn new(request: Box<Request<()>>) -> Self {
        let target = request.uri().to_string();
        Self { request, target }
    }

    /// Calls `on_head` with the request's head.
    pub(in crate::server) fn with_head<T>(
        &self,
        on_head: impl FnOnce(&HttpRequestHead<'_>) -> T,
    ) -> T {
        let fields = self.request.headers().iter();
        let headers: Vec<Header<'_>> = fields
            .map(|(name, value)| Header { name: name.as_str(), value: value.as_bytes() })
            .collect();
        on_head(&HttpRequestHead {
            method: self.request.method().as_str(),
            target: &self.target,
            raw_target: self.request.extensions().get(),
            version: u8::from(self.request.version() != Version::HTTP_10),
            headers: &headers,
        })
    }
}
