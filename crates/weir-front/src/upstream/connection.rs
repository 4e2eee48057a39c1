//! A connection to a worker.

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::header::HeaderMap;
use weir_base::clock::Timestamp;

use super::sending::Sending;
use super::socket::UpstreamSocket;
use crate::address::UpstreamAddress;

/// The largest send buffer that an idle connection keeps for its next request.
const BUFFER_BYTES_KEPT: usize = 4 << 10;

/// A connection to a worker with the buffers of its exchanges, which the next request reuses. All
/// bytes read from the socket belong to a response. Boxed, because it is moved often.
#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    pub(crate) socket: UpstreamSocket,
    /// Whether it has carried a request before.
    pub(crate) is_reused: bool,
    /// When its last exchange ended.
    pub(super) idle_since: Timestamp,
    pub(super) sending: Sending,
    /// The beginning of a head that arrived in pieces.
    pub(super) unread: Vec<u8>,
    /// Empty; its memory is reused for the fields of a response.
    pub(super) fields: HeaderMap,
}

impl UpstreamConnection {
    pub(crate) async fn open(address: &UpstreamAddress) -> io::Result<Box<Self>> {
        Ok(Box::new(Self {
            socket: UpstreamSocket::connect(address).await?,
            is_reused: false,
            idle_since: Timestamp::from_micros(0),
            sending: Sending::default(),
            unread: Vec::new(),
            fields: HeaderMap::new(),
        }))
    }

    /// Takes the empty buffer for a request's head.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        self.sending.take_buffer()
    }

    /// Stores an empty map for the fields of the next response.
    pub(crate) fn reuse_fields(&mut self, fields: HeaderMap) {
        self.fields = fields;
    }

    /// Prepares for the next request, after an exchange has ended in order.
    pub(super) fn reset_for_reuse(&mut self) {
        let buffer = self.sending.take_buffer();
        let is_small = buffer.capacity() <= BUFFER_BYTES_KEPT;
        self.sending = Sending::resting(if is_small { buffer } else { Vec::new() });
        self.unread = Vec::new();
        self.is_reused = true;
    }

    /// Returns the bytes that have arrived. Empty: the end.
    pub(super) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let read = self.socket.poll_take(context, Bytes::copy_from_slice);
        read.map_ok(Option::unwrap_or_default)
    }
}
