//! What is at a path, and what of it a request gets: all, a part, or the word that it is unchanged.

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

/// What an answer has at most, and what is added on its way.
const HEADERS: usize = 12;

/// Clients ask each time whether something has changed.
pub(super) const REVALIDATE: HeaderValue =
    HeaderValue::from_static("public, max-age=0, must-revalidate");
/// What is wrong now may not be in a moment.
pub(super) const NOT_AT_ALL: HeaderValue = HeaderValue::from_static("no-store");
/// What never changes.
pub(super) const FOR_A_YEAR: HeaderValue = HeaderValue::from_static("public, max-age=31536000");

/// The same, where not everybody may read it.
const PRIVATE_REVALIDATE: HeaderValue =
    HeaderValue::from_static("private, max-age=0, must-revalidate");
const PRIVATE_FOR_A_YEAR: HeaderValue = HeaderValue::from_static("private, max-age=31536000");

pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(super) const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// What is said of a representation, whatever part of it is sent.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) length: u64,
    /// With quotes.
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

    /// The answer; `body` gives the bytes of a range.
    pub(super) fn answer(
        self,
        request: &Parts,
        body: impl FnOnce(Range<u64>) -> ResponseBody,
    ) -> Response<ResponseBody> {
        // In this order (RFC 9110, 13.2.2).
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

    /// A part is only of use to who has another part of the same.
    fn wanted(&self, request: &Parts) -> Wanted {
        // A range is for GET alone (RFC 9110, 14.2).
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

/// From now on caches that many share keep nothing of an answer.
pub(super) fn set_private(headers: &mut HeaderMap) {
    let told = match headers.get(header::CACHE_CONTROL) {
        Some(told) if *told == NOT_AT_ALL => return,
        Some(told) if *told == FOR_A_YEAR => PRIVATE_FOR_A_YEAR,
        _ => PRIVATE_REVALIDATE,
    };
    headers.insert(header::CACHE_CONTROL, told);
}

/// What is set is ASCII without control characters.
fn set(response: &mut Response<ResponseBody>, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Whether `If-Match` names other tags only. Weak ones match nothing here.
fn is_another_wanted(request: &HeaderMap, etag: &str) -> bool {
    let mut tags = tags(request, header::IF_MATCH).peekable();
    tags.peek().is_some() && !tags.any(|tag| tag == "*" || tag == etag)
}

/// The tags of all lists of that name.
fn tags(request: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lists = request.get_all(name).into_iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim_ascii)
}

/// Whether `If-None-Match` names the tag. Old clients leave out its quotes.
fn is_known(request: &HeaderMap, etag: &str) -> bool {
    tags(request, header::IF_NONE_MATCH).map(bare).any(|tag| tag == "*" || tag == bare(etag))
}

/// A tag without what may be left out.
fn bare(tag: &str) -> &str {
    tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')
}

/// The answer with bytes that are at hand.
pub(super) fn bytes(
    request: &Parts,
    described: Described,
    content: &Bytes,
) -> Response<ResponseBody> {
    described.answer(request, |range| {
        // They are in memory, so their places fit.
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
        content.slice(place(range.start)..place(range.end)).into()
    })
}
