//! Internals for fuzzers, without sockets. Not for other users.

use hyper::Method;

pub use crate::proxy::head_for_worker;
use crate::upstream;

/// A worker's response, read as it arrives in pieces.
#[derive(Debug, PartialEq, Eq)]
pub struct MeasuredResponse {
    pub status: u16,
    /// Fields that the client gets.
    pub fields: usize,
    pub body: Vec<u8>,
    /// The end of the body was there.
    pub is_whole: bool,
}

/// Reads the response to a request (to `HEAD` or to `GET`), of which `piece` bytes come at a time.
/// None: it is no response, or its head is not complete.
#[must_use]
pub fn read_answer(bytes: &[u8], is_head: bool, piece: usize) -> Option<MeasuredResponse> {
    let method = if is_head { Method::HEAD } else { Method::GET };
    let (answer, body, is_whole) = upstream::read_by_hand(bytes, &method, piece.max(1))?;
    let (status, fields) = (answer.status.as_u16(), answer.headers.len());
    Some(MeasuredResponse { status, fields, body, is_whole })
}
