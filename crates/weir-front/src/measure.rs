//! Internals for fuzzers, without sockets. Not a stable interface.

use hyper::Method;

pub use crate::proxy::head_for_worker;
use crate::upstream;

/// A worker's response, read in pieces.
#[derive(Debug, PartialEq, Eq)]
pub struct MeasuredResponse {
    pub status: u16,
    /// How many header fields the client gets.
    pub fields: usize,
    pub body: Vec<u8>,
    /// Whether the end of the body was reached.
    pub is_whole: bool,
}

/// Reads the response to a HEAD or GET request from `bytes`, `piece` bytes at a time. Returns None
/// if it is malformed or its head is incomplete.
#[must_use]
pub fn read_response(bytes: &[u8], is_head: bool, piece: usize) -> Option<MeasuredResponse> {
    let method = if is_head { Method::HEAD } else { Method::GET };
    let (response, body, is_whole) = upstream::read_in_pieces(bytes, &method, piece.max(1))?;
    let (status, fields) = (response.status.as_u16(), response.headers.len());
    Some(MeasuredResponse { status, fields, body, is_whole })
}
