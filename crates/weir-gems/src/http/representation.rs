//! Responds with a representation: all of it, a part, or 304 if the client has it.

use std::ops::Range;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use weir_net::server::ResponseBody;

use super::range::{Wanted, wanted};
use crate::index::digest::Digests;

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
const DIGEST: HeaderName = HeaderName::from_static("digest");

/// Maximum number of headers, including those that are added later.
const HEADERS: usize = 12;

/// For texts that may change: clients revalidate at every request.
pub(super) const REVALIDATE: HeaderValue =
    HeaderValue::from_static("public, max-age=0, must-revalidate");
/// For errors, which may be resolved a moment later.
pub(super) const NOT_AT_ALL: HeaderValue = HeaderValue::from_static("no-store");
/// For content that never changes.
pub(super) const FOR_A_YEAR: HeaderValue = HeaderValue::from_static("public, max-age=31536000");

/// [`REVALIDATE`] for an index that requires a key to read.
const PRIVATE_REVALIDATE: HeaderValue =
    HeaderValue::from_static("private, max-age=0, must-revalidate");
const PRIVATE_FOR_A_YEAR: HeaderValue = HeaderValue::from_static("private, max-age=31536000");

pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(super) const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Headers of a representation, whichever part of it is sent.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) length: u64,
    /// The entity tag, including quotes.
    pub(super) etag: String,
    pub(super) repr_digest: String,
    pub(super) digest: String,
    pub(super) kind: HeaderValue,
    pub(super) cache: HeaderValue,
}

impl Described {
    pub(super) fn by(digests: &Digests, length: u64, kind: HeaderValue) -> Self {
        Self {
            length,
            etag: digests.etag(),
            repr_digest: digests.repr_digest(),
            digest: digests.digest(),
            kind,
            cache: REVALIDATE,
        }
    }

    /// Returns the response to a conditional or range request. `body` returns the bytes of a range.
    pub(super) fn answer(
        self,
        request: &Parts,
        body: impl FnOnce(Range<u64>) -> ResponseBody,
    ) -> Response<ResponseBody> {
        // RFC 9110, 13.2.2 prescribes this order of conditions.
        if is_another_wanted(&request.headers, &self.etag) {
            return self.response(StatusCode::PRECONDITION_FAILED, ResponseBody::empty());
        }
        if is_known(&request.headers, &self.etag) {
            return self.response(StatusCode::NOT_MODIFIED, ResponseBody::empty());
        }
        match self.wanted(request) {
            Wanted::All => {
                let body = body(0..self.length);
                self.response(StatusCode::OK, body)
            }
            Wanted::Part(range) => {
                let content = format!("bytes {}-{}/{}", range.start, range.end - 1, self.length);
                let mut response = self.response(StatusCode::PARTIAL_CONTENT, body(range));
                set(&mut response, header::CONTENT_RANGE, content);
                response
            }
            Wanted::Nothing => {
                let content = format!("bytes */{}", self.length);
                let mut response =
                    self.response(StatusCode::RANGE_NOT_SATISFIABLE, ResponseBody::empty());
                set(&mut response, header::CONTENT_RANGE, content);
                response
            }
        }
    }

    /// Returns the requested range. `If-Range` must match the current version, since a part can
    /// only complete an earlier part of it.
    fn wanted(&self, request: &Parts) -> Wanted {
        // Ranges are defined for GET only (RFC 9110, 14.2).
        if request.method != Method::GET {
            return Wanted::All;
        }
        let text = |name| request.headers.get(name).and_then(|value| value.to_str().ok());
        match text(header::IF_RANGE) {
            Some(etag) if etag != self.etag => Wanted::All,
            _ => wanted(text(header::RANGE), self.length),
        }
    }

    fn response(self, status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.reserve(HEADERS);
        headers.insert(header::CACHE_CONTROL, self.cache);
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        if status != StatusCode::NOT_MODIFIED {
            headers.insert(header::CONTENT_TYPE, self.kind);
        }
        set(&mut response, header::ETAG, self.etag);
        set(&mut response, REPR_DIGEST, self.repr_digest);
        set(&mut response, DIGEST, self.digest);
        response
    }
}

/// Makes a response private, so that shared caches do not store it.
pub(super) fn set_private(headers: &mut HeaderMap) {
    let told = match headers.get(header::CACHE_CONTROL) {
        Some(told) if *told == NOT_AT_ALL => return,
        Some(told) if *told == FOR_A_YEAR => PRIVATE_FOR_A_YEAR,
        _ => PRIVATE_REVALIDATE,
    };
    headers.insert(header::CACHE_CONTROL, told);
}

/// Sets a header. The value must be ASCII without control characters.
fn set(response: &mut Response<ResponseBody>, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Returns whether `If-Match` is present without matching the tag. Weak tags never match here.
fn is_another_wanted(request: &HeaderMap, etag: &str) -> bool {
    let mut tags = tags(request, header::IF_MATCH).peekable();
    tags.peek().is_some() && !tags.any(|tag| tag == "*" || tag == etag)
}

/// Returns the entity tags of all headers of that name.
fn tags(request: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lists = request.get_all(name).into_iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim_ascii)
}

/// Returns whether `If-None-Match` has the tag. Old clients omit the quotes.
fn is_known(request: &HeaderMap, etag: &str) -> bool {
    tags(request, header::IF_NONE_MATCH).map(bare).any(|tag| tag == "*" || tag == bare(etag))
}

/// Strips the optional parts of a tag.
fn bare(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

/// Returns a response with bytes that are in memory.
pub(super) fn bytes(
    request: &Parts,
    described: Described,
    content: &Bytes,
) -> Response<ResponseBody> {
    described.answer(request, |range| {
        // The content is in memory, so its offsets fit in a usize.
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
        content.slice(place(range.start)..place(range.end)).into()
    })
}
