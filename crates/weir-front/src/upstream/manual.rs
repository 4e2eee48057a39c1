//! Reads a response without a socket, for fuzzers.

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderMap;

use super::response::{self, HeadLimits, UpstreamResponse};

/// The limits of the default settings.
const LIMITS: HeadLimits = HeadLimits { bytes_max: 64 << 10, headers_max: 1_000 };

/// Reads a response that arrives `piece` bytes at a time. Returns it with its valid body bytes and
/// whether the end was reached, or None if the head is malformed or incomplete.
pub(crate) fn read(
    bytes: &[u8],
    method: &Method,
    piece: usize,
) -> Option<(Box<UpstreamResponse>, Vec<u8>, bool)> {
    let mut received = 0;
    let mut response = loop {
        if received == bytes.len() {
            return None;
        }
        received = bytes.len().min(received + piece);
        let mut fields = HeaderMap::new();
        if let Some(response) =
            response::read(&bytes[..received], method, LIMITS, &mut fields).ok()?
        {
            break response;
        }
    };
    let mut body = Vec::new();
    let mut rest = std::mem::take(&mut response.rest);
    loop {
        match response.framing.next(&mut rest) {
            Ok(Some(data)) => body.extend_from_slice(&data),
            Err(_) => return Some((response, body, false)),
            Ok(None) if received == bytes.len() || response.framing.is_at_end() => break,
            Ok(None) => {
                let end = bytes.len().min(received + piece);
                rest = Bytes::copy_from_slice(&bytes[received..end]);
                received = end;
            }
        }
    }
    let is_whole = response.framing.is_at_end();
    Some((response, body, is_whole))
}
