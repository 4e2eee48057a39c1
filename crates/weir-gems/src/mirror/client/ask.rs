//! A request to an upstream.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{self, HeaderValue};
use weir_base::secret::Secret;
use weir_net::http_client::{Deadline, HttpRequest, HttpUrl, TimeLimit};

use super::{FetchError, standard_headers};

/// Parameters of a request.
#[derive(Clone, Copy, Debug)]
pub(in crate::mirror) struct Ask<'a> {
    /// Encoded path, relative to the upstream's URL.
    pub(in crate::mirror) path: &'a str,
    /// Offset of the first byte to request.
    pub(in crate::mirror) from: Option<u64>,
    /// Entity tag of the known version.
    pub(in crate::mirror) known: Option<&'a str>,
    /// Whether caches on the way have to revalidate.
    pub(in crate::mirror) is_fresh: bool,
    /// Time limit for the whole request.
    pub(in crate::mirror) timeout: TimeLimit,
}

impl<'a> Ask<'a> {
    pub(in crate::mirror) const fn all(path: &'a str, timeout: TimeLimit) -> Self {
        Self { path, from: None, known: None, is_fresh: false, timeout }
    }

    pub(super) fn request(
        &self,
        url: &HttpUrl,
        credentials: Option<&HeaderValue>,
        deadline: Deadline,
    ) -> Result<HttpRequest, FetchError> {
        let mut request = HttpRequest::new(Method::GET, url.target().clone(), Bytes::new());
        request.deadline = Some(deadline);
        let headers = &mut request.headers;
        standard_headers(headers);
        let text = |text: &str| HeaderValue::from_str(text).map_err(|_| FetchError::Request);
        if let Some(from) = self.from {
            headers.insert(header::RANGE, text(&format!("bytes={from}-"))?);
        }
        if let Some(known) = self.known {
            headers.insert(header::IF_NONE_MATCH, text(known)?);
        }
        if self.is_fresh {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        if let Some(credentials) = credentials {
            headers.insert(header::AUTHORIZATION, credentials.clone());
        }
        Ok(request)
    }
}

/// Returns `USER:PASSWORD` as a sensitive header, which is not shown in logs.
pub(super) fn basic(credentials: &Secret) -> HeaderValue {
    let text = format!("Basic {}", BASE64_STANDARD.encode(credentials.expose()));
    // This can't fail: base64 is ASCII.
    let mut value =
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("Basic"));
    value.set_sensitive(true);
    value
}
