//! The body of a worker's response.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use weir_net::chunks::BadChunk;

use super::connection::UpstreamConnection;
use super::framing::Framing;

/// Why a body broke off.
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

/// The body of a response, and what is left of its request: a worker may answer before it has read
/// all.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    connection: Box<UpstreamConnection>,
    framing: Framing,
    /// Read and not taken.
    rest: Bytes,
    may_keep: bool,
    has_closed: bool,
}

impl AnswerReader {
    pub(super) fn new(
        connection: Box<UpstreamConnection>,
        framing: Framing,
        rest: Bytes,
        may_keep: bool,
    ) -> Self {
        Self { connection, framing, rest, may_keep, has_closed: false }
    }

    /// Bytes that are left, if the worker has said.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            Framing::Chunked(_) | Framing::UntilClose => None,
        }
    }

    /// All of the body, if it has come already.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        match &mut self.framing {
            Framing::Length(left) if *left <= self.rest.len() as u64 => {
                let length = usize::try_from(std::mem::take(left)).ok()?;
                Some(self.rest.split_to(length))
            }
            _ => None,
        }
    }

    /// The next bytes; None is the end.
    pub(crate) fn poll_data(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, UpstreamBodyError>>> {
        let UpstreamConnection { socket, sending, .. } = &mut *self.connection;
        if sending.poll(socket, context).is_err() {
            // The worker has the request all the same: whoever reads on hears what it says.
            sending.give_up();
            return Poll::Ready(Some(Err(UpstreamBodyError::Client)));
        }
        loop {
            match self.framing.next(&mut self.rest) {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(data))),
                Ok(None) if self.framing.is_at_end() || self.has_closed => {
                    return Poll::Ready(None);
                }
                Ok(None) => {}
                Err(bad) => return Poll::Ready(Some(Err(bad.into()))),
            }
            match ready!(self.connection.poll_bytes(context)) {
                Ok(bytes) if !bytes.is_empty() => self.rest = bytes,
                Ok(_) if matches!(self.framing, Framing::UntilClose) => self.has_closed = true,
                Ok(_) => return Poll::Ready(Some(Err(UpstreamBodyError::Short))),
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    /// Bytes of the request that have left.
    pub(crate) fn sent(&self) -> u64 {
        self.connection.sending.total()
    }

    /// Some of the request is still to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.connection.sending.is_done()
    }

    /// The worker has read all that has come of the request, and there is more to come.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.connection.sending.waits_for_client()
    }

    /// Shuts down the connection to the worker, as far as that is possible while it sends nothing.
    pub(crate) async fn hang_up(&mut self) {
        let UpstreamConnection { socket, sending, .. } = &mut *self.connection;
        sending.give_up();
        // A worker that is gone need not be told.
        let _ = poll_fn(|context| Pin::new(&mut *socket).poll_shutdown(context)).await;
    }

    /// Reads and discards the rest. True: to the end. The connection of a worker that sends more than `bytes_max` is
    /// closed: its next write fails.
    pub(crate) async fn discard(&mut self, bytes_max: usize) -> bool {
        let mut left = bytes_max;
        loop {
            match poll_fn(|context| self.poll_data(context)).await {
                None => return true,
                Some(Ok(data)) if data.len() <= left => left -= data.len(),
                Some(_) => return false,
            }
        }
    }

    /// The connection, if the worker will read another request from it.
    pub(crate) fn into_connection(mut self) -> Option<Box<UpstreamConnection>> {
        let is_clean = self.framing.is_at_end() && self.rest.is_empty() && !self.is_sending();
        if !is_clean || !self.may_keep {
            return None;
        }
        self.connection.rest();
        Some(self.connection)
    }
}
