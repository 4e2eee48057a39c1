//! Compresses responses while they are relayed, for clients that accept gzip.

use std::fmt;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body as HttpBody, Frame};
use hyper::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, VARY,
};
use hyper::{Response, StatusCode};
use weir_net::server::{BoxError, ResponseBody};

use crate::settings::Gzip;

/// How many compressed bytes are gathered before they are sent.
const OUT_BYTES: usize = 16 << 10;

/// Returns whether a client accepts gzip (RFC 9110, section 12.5.3).
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let (mut named, mut any) = (None, None);
    for (name, is_allowed) in lists.flat_map(|list| list.split(',')).map(coding) {
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            named = Some(is_allowed);
        } else if name == "*" {
            any = Some(is_allowed);
        }
    }
    // `*` applies to codings that are not listed (RFC 9110, section 12.5.3).
    named.or(any).unwrap_or(false)
}

/// Returns a coding's name and whether the client accepts it.
fn coding(text: &str) -> (&str, bool) {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let is_allowed =
        weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|weight| weight > 0.0));
    (name, is_allowed)
}

/// The properties of a request that decide about compression.
#[derive(Clone, Copy, Debug)]
pub(super) struct GzipRequest {
    pub(super) is_accepted: bool,
    /// The response has no body, but the fields that it would have with one (RFC 9110, section
    /// 9.3.2).
    pub(super) is_head: bool,
}

/// Compresses the response if that is worthwhile and the client accepts it.
pub(super) fn apply(
    gzip: &Gzip,
    request: GzipRequest,
    response: Response<ResponseBody>,
) -> Response<ResponseBody> {
    if !should_compress(gzip, request, &response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // In both variants, so that caches tell them apart.
    parts.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    if !request.is_accepted {
        return Response::from_parts(parts, body);
    }
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.remove(ACCEPT_RANGES);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    weaken(&mut parts.headers);
    if request.is_head {
        return Response::from_parts(parts, body);
    }
    let encoder = GzEncoder::new(Vec::new(), Compression::new(gzip.level));
    Response::from_parts(
        parts,
        ResponseBody::new(Gzipped { body, encoder: Some(encoder), is_dirty: false }),
    )
}

fn should_compress(gzip: &Gzip, request: GzipRequest, response: &Response<ResponseBody>) -> bool {
    let headers = response.headers();
    let status = response.status();
    let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
    let is_whole = status != StatusCode::PARTIAL_CONTENT && !headers.contains_key(CONTENT_RANGE);
    let length = match request.is_head {
        true => content_length(headers),
        false => response.body().size_hint().upper(),
    };
    let is_long = length.is_none_or(|bytes| bytes >= gzip.bytes_min);
    let may_transform = !headers.get_all(CACHE_CONTROL).iter().any(|value| {
        value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains("no-transform"))
    });
    let is_plain = !headers.contains_key(CONTENT_ENCODING);
    has_body && is_whole && is_long && may_transform && is_plain && is_compressible(headers)
}

/// Returns the length from the header, which a response to HEAD has, too.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns whether the content is text. Event streams are not compressed, because each event is
/// small and must be sent immediately.
fn is_compressible(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_text = kind.starts_with("text/") && kind != "text/event-stream";
    let compressible = [
        "application/json",
        "application/javascript",
        "application/xml",
        "application/wasm",
        "application/manifest+json",
        "image/svg+xml",
        "image/x-icon",
        "font/ttf",
        "font/otf",
    ];
    is_text
        || compressible.contains(&kind.as_str())
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
}

/// Makes the ETag weak, since the bytes are no longer those of the tag (RFC 9110, section 8.8.1).
fn weaken(headers: &mut HeaderMap) {
    let Some(tag) = headers.get(ETAG).filter(|tag| !tag.as_bytes().starts_with(b"W/")) else {
        return;
    };
    if let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat()) {
        headers.insert(ETAG, weak);
    }
}

/// A body that is compressed as it is relayed.
struct Gzipped {
    body: ResponseBody,
    /// None: it has ended.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// The encoder holds bytes that were not sent.
    is_dirty: bool,
}

impl HttpBody for Gzipped {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, encoder: slot, is_dirty } = &mut *self;
        loop {
            let Some(encoder) = slot else { return Poll::Ready(None) };
            if encoder.get_ref().len() >= OUT_BYTES {
                return Poll::Ready(Some(Ok(Frame::data(take_output(encoder)))));
            }
            match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    // Workers' trailers are not forwarded.
                    let Ok(data) = frame.into_data() else { continue };
                    encoder.write_all(&data)?;
                    *is_dirty = true;
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    let remaining = slot.take().map(GzEncoder::finish).transpose()?;
                    let remaining = remaining.filter(|remaining| !remaining.is_empty());
                    return Poll::Ready(
                        remaining.map(|remaining| Ok(Frame::data(remaining.into()))),
                    );
                }
                // Flush when the worker pauses, so that the client gets all that was written
                // before.
                Poll::Pending if std::mem::take(is_dirty) => {
                    encoder.flush()?;
                    if !encoder.get_ref().is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(take_output(encoder)))));
                    }
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none()
    }
}

fn take_output(encoder: &mut GzEncoder<Vec<u8>>) -> Bytes {
    std::mem::take(encoder.get_mut()).into()
}

impl fmt::Debug for Gzipped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gzipped").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn gzip_is_negotiated_by_accept_encoding() {
        let table = [
            ("gzip", true),
            ("deflate, GZIP;q=0.5, br", true),
            ("*", true),
            ("x-gzip", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("br, identity", false),
            ("gzip;q=none", false),
            ("gzip;q=0, *", false),
            ("*, gzip;q=0", false),
            ("br, *;q=0", false),
            ("*;q=0, gzip", true),
        ];
        for (value, expected) in table {
            assert_eq!(is_accepted(&headers(&[("accept-encoding", value)])), expected, "{value}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }

    #[test]
    fn only_worthwhile_responses_are_compressed() {
        let gzip = Gzip { bytes_min: 10, level: 4 };
        let judged = |status, fields: &[(&'static str, &'static str)], body: &'static str| {
            let mut response = Response::new(ResponseBody::from(body));
            *response.status_mut() = status;
            *response.headers_mut() = headers(fields);
            should_compress(&gzip, GzipRequest { is_accepted: true, is_head: false }, &response)
        };
        let ok = StatusCode::OK;
        let json = ("content-type", "application/problem+json; charset=utf-8");
        assert!(judged(ok, &[json], "0123456789"));
        assert!(!judged(ok, &[json], "012345678"), "too short");
        assert!(!judged(ok, &[("content-type", "image/png")], "0123456789"));
        assert!(!judged(ok, &[("content-type", "text/event-stream")], "0123456789"));
        assert!(!judged(ok, &[json, ("content-encoding", "br")], "0123456789"));
        assert!(!judged(ok, &[json, ("cache-control", "public, No-Transform")], "0123456789"));
        assert!(!judged(StatusCode::PARTIAL_CONTENT, &[json], "0123456789"));
        assert!(!judged(StatusCode::NOT_MODIFIED, &[json], ""));
    }
}
