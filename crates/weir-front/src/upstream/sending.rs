//! Sends a request to a worker.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::outgoing::{BadBody, Outgoing};
use super::socket::UpstreamSocket;

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framed {
    /// By Content-Length in the head.
    Length,
    Chunked,
}

impl Framed {
    /// Appends a piece of a body to `into`.
    pub(crate) fn write(self, into: &mut Vec<u8>, data: &[u8]) {
        match self {
            Self::Length => into.extend_from_slice(data),
            // An empty chunk would end the body.
            Self::Chunked if data.is_empty() => {}
            Self::Chunked => {
                into.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
                into.extend_from_slice(data);
                into.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Appends the bytes that end the body.
    pub(crate) fn write_end(self, into: &mut Vec<u8>) {
        if self == Self::Chunked {
            into.extend_from_slice(b"0\r\n\r\n");
        }
    }
}

/// The send buffer of a request and the rest of its body.
#[derive(Debug)]
pub(super) struct Sending {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes sent in all.
    total: u64,
    /// None: all of the request is in `bytes`.
    body: Option<Outgoing>,
    framed: Framed,
    /// The worker reads no more. It may have responded all the same.
    is_refused: bool,
}

impl Default for Sending {
    fn default() -> Self {
        Self::resting(Vec::new())
    }
}

impl Sending {
    /// Creates it from `bytes`, the head and the part of the body that has arrived, and the rest.
    pub(super) fn new(bytes: Vec<u8>, body: Option<Outgoing>, framed: Framed) -> Self {
        Self { bytes, sent: 0, total: 0, body, framed, is_refused: false }
    }

    /// Creates an empty one that reuses `buffer`.
    pub(super) fn resting(buffer: Vec<u8>) -> Self {
        Self::new(buffer, None, Framed::Length)
    }

    /// Takes out the buffer and empties it.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.bytes);
        buffer.clear();
        buffer
    }

    /// Returns how many bytes were sent. If none, the worker has not seen the request.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn is_done(&self) -> bool {
        self.body.is_none() && self.sent == self.bytes.len()
    }

    /// Returns whether a part of the body has not arrived from the client yet.
    pub(super) fn is_uploading(&self) -> bool {
        self.body.is_some()
    }

    /// Returns whether all that has arrived from the client was sent, with more to come.
    pub(super) fn waits_for_client(&self) -> bool {
        self.body.is_some() && self.sent == self.bytes.len()
    }

    /// Stops sending.
    pub(super) fn stop(&mut self) {
        self.is_refused = true;
        self.body = None;
    }

    pub(super) fn take_body(&mut self) -> Option<Outgoing> {
        self.body.take()
    }

    /// Sends as much as possible. Write errors are not returned: the response says more.
    pub(super) fn poll(
        &mut self,
        socket: &mut UpstreamSocket,
        context: &mut Context<'_>,
    ) -> Result<(), BadBody> {
        while !self.is_refused {
            if self.sent < self.bytes.len() {
                match self.poll_bytes(socket, context) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => self.is_refused = true,
                    Poll::Pending => return Ok(()),
                }
                continue;
            }
            let Some(body) = &mut self.body else { return Ok(()) };
            let Poll::Ready(data) = body.poll_data(context) else { return Ok(()) };
            self.bytes.clear();
            self.sent = 0;
            match data {
                Some(data) => self.framed.write(&mut self.bytes, &data?),
                None => {
                    self.framed.write_end(&mut self.bytes);
                    self.body = None;
                }
            }
        }
        Ok(())
    }

    fn poll_bytes(
        &mut self,
        socket: &mut UpstreamSocket,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let written = Pin::new(socket).poll_write(context, &self.bytes[self.sent..]);
        written.map_ok(|count| {
            self.sent += count;
            self.total += count as u64;
        })
    }
}
