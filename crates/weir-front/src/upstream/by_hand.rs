//! Reads a response without a socket, for fuzzers.

use bytes::Bytes;
use hyper::Method;
use hyper::header::HeaderMap;

use super::answer::{self, HeadLimits, UpstreamResponse};

/// The limits of the default settings.
const LIMITS: HeadLimits = HeadLimits { bytes_max: 64 << 10, headers_max: 1_000 };

/// Reads a response that arrives `piece` bytes at a time. Returns it with its valid body bytes and
/// whether the end was reached, or None if the head is malformed or incomplete.
pub(crate) fn read(
    bytes: &[u8],
    method: &Method,
    piece: usize,
) -> Option<(Box<UpstreamResponse>, Vec<u8>, bool)> {
    let mut came = 0;
    let mut answer = loop {
        if came == bytes.len() {
            return None;
        }
        came = bytes.len().min(came + piece);
        let mut fields = HeaderMap::new();
        if let Some(answer) = answer::read(&bytes[..came], method, LIMITS, &mut fields).ok()? {
            break answer;
        }
    };
    let mut body = Vec::new();
    let mut rest = std::mem::take(&mut answer.rest);
    loop {
        match answer.framing.next(&mut rest) {
            Ok(Some(data)) => body.extend_from_slice(&data),
            Err(_) => return Some((answer, body, false)),
            Ok(None) if came == bytes.len() || answer.framing.is_at_end() => break,
            Ok(None) => {
                let end = bytes.len().min(came + piece);
                rest = Bytes::copy_from_slice(&bytes[came..end]);
                came = end;
            }
        }
    }
    let is_whole = answer.framing.is_at_end();
    Some((answer, body, is_whole))
}
