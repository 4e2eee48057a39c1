//! Reads the body of a worker's response.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use weir_net::chunks::BadChunk;

use super::connection::UpstreamConnection;
use super::framing::Framing;

/// Why a body is incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamBodyError {
    #[error("the worker closed the connection within its response")]
    Short,
    #[error("the client broke off its request in the middle of the answer to it")]
    Client,
    #[error("the worker's connection failed: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Bad(#[from] BadChunk),
}

/// The body of a response and the unsent rest of its request: a worker may respond before it has
/// read all of the request.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    connection: Box<UpstreamConnection>,
    framing: Framing,
    /// Bytes that were read but not returned.
    rest: Bytes,
    may_keep: bool,
    has_closed: bool,
}

impl ResponseReader {
    pub(super) fn new(
        connection: Box<UpstreamConnection>,
        framing: Framing,
        rest: Bytes,
        may_keep: bool,
    ) -> Self {
        Self { connection, framing, rest, may_keep, has_closed: false }
    }

    /// Returns how many bytes are left. None: the worker has sent no length.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(remaining) => Some(remaining),
            Framing::Chunked(_) | Framing::UntilClose => None,
        }
    }

    /// Returns all of the body if it has arrived.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        match &mut self.framing {
            Framing::Length(remaining) if *remaining <= self.rest.len() as u64 => {
                let length = usize::try_from(std::mem::take(remaining)).ok()?;
                Some(self.rest.split_to(length))
            }
            _ => None,
        }
    }

    /// Returns the next bytes. None: the end.
    pub(crate) fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamBodyError>>> {
        let UpstreamConnection { socket, sending, .. } = &mut *self.connection;
        if sending.poll(socket, context).is_err() {
            // The worker may still respond to the incomplete request, and the reader may read on.
            sending.stop();
            return Poll::Ready(Some(Err(UpstreamBodyError::Client)));
        }
        loop {
            match self.framing.next(&mut self.rest) {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(None) if self.framing.is_at_end() || self.has_closed => {
                    return Poll::Ready(None);
                }
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
            match ready!(self.connection.poll_bytes(context)) {
                Ok(bytes) if !bytes.is_empty() => self.rest = bytes,
                Ok(_) if matches!(self.framing, Framing::UntilClose) => self.has_closed = true,
                Ok(_) => return Poll::Ready(Some(Err(UpstreamBodyError::Short))),
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    /// Returns how many bytes of the request were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.connection.sending.total()
    }

    /// Returns whether a part of the request is still to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.connection.sending.is_done()
    }

    /// Returns whether the worker has read all of the request that has arrived, with more to come.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.connection.sending.waits_for_client()
    }

    /// Shuts down the sending side of the connection, so that a worker that only reads notices.
    pub(crate) async fn shut_down_sending(&mut self) {
        let UpstreamConnection { socket, sending, .. } = &mut *self.connection;
        sending.stop();
        // Fails if the worker has closed the connection already.
        let _ = poll_fn(|context| Pin::new(&mut *socket).poll_shutdown(context)).await;
    }

    /// Reads and discards the rest. Returns false if it ends early or is longer than `bytes_max`:
    /// the caller closes the connection then, so that the worker's next write fails.
    pub(crate) async fn discard(&mut self, bytes_max: usize) -> bool {
        let mut remaining = bytes_max;
        loop {
            match poll_fn(|context| self.poll_data(context)).await {
                None => return true,
                Some(Ok(data)) if data.len() <= remaining => remaining -= data.len(),
                Some(_) => return false,
            }
        }
    }

    /// Returns the connection if the worker will read another request from it.
    pub(crate) fn into_connection(mut self) -> Option<Box<UpstreamConnection>> {
        let is_clean = self.framing.is_at_end() && self.rest.is_empty() && !self.is_sending();
        if !is_clean || !self.may_keep {
            return None;
        }
        self.connection.reset_for_reuse();
        Some(self.connection)
    }
}
