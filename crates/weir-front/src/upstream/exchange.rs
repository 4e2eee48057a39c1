//! Sends a request to a worker and reads the head of the response.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::Method;
use tokio::io::AsyncWrite;

use super::connection::UpstreamConnection;
use super::outgoing::{BadBody, Outgoing};
use super::reader::ResponseReader;
use super::response::{self, HeadLimits, UpstreamResponse, UpstreamResponseError};
use super::sending::{Framed, Sending};

/// Why a worker sent no response.
#[derive(Debug)]
pub(crate) enum UpstreamError {
    /// The connection had ended before any byte was sent.
    Unsent,
    /// The connection ended before the response did.
    Ended,
    Bad(UpstreamResponseError),
    /// The client's request body is invalid.
    Body(BadBody),
}

/// One request on one connection. Its progress is in the struct, so a poll continues where the one
/// before stopped, and a dropped future loses nothing.
#[derive(Debug)]
pub(crate) struct Exchange {
    connection: Box<UpstreamConnection>,
    method: Method,
    limits: HeadLimits,
}

impl Exchange {
    /// Creates the exchange. `bytes`: the request's head and the part of its body that has arrived;
    /// `body`: the part that is still to come.
    pub(crate) fn new(
        mut connection: Box<UpstreamConnection>,
        method: Method,
        bytes: Vec<u8>,
        body: Option<Outgoing>,
        framed: Framed,
        limits: HeadLimits,
    ) -> Self {
        connection.sending = Sending::new(bytes, body, framed);
        Self { connection, method, limits }
    }

    /// Returns how many bytes of the request were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.connection.sending.total()
    }

    /// Returns whether a part of the request is still to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.connection.sending.is_done()
    }

    /// Returns whether a part of the body has not arrived from the client yet.
    pub(crate) fn is_uploading(&self) -> bool {
        self.connection.sending.is_uploading()
    }

    /// Returns whether the exchange cannot continue before the client sends more of its body.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.connection.sending.waits_for_client()
    }

    /// Returns what is left of the body. After [`UpstreamError::Unsent`] that is all of it.
    pub(crate) fn into_body(mut self) -> Option<Outgoing> {
        self.connection.sending.take_body()
    }

    /// Sends the request and reads the head of the response, at the same time.
    pub(crate) fn poll_response(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Box<UpstreamResponse>, UpstreamError>> {
        let UpstreamConnection { socket, sending, .. } = &mut *self.connection;
        if let Err(error) = sending.poll(socket, context) {
            return Poll::Ready(Err(UpstreamError::Body(error)));
        }
        loop {
            if let Some(response) = ready!(self.poll_head(context)).transpose() {
                return Poll::Ready(response);
            }
        }
    }

    /// Reads what has arrived. Returns None if the head is incomplete.
    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Box<UpstreamResponse>>, UpstreamError>> {
        let Self { connection, method, limits } = self;
        let UpstreamConnection { socket, unread, fields, .. } = &mut **connection;
        let read = socket.poll_take(context, |bytes| {
            if unread.is_empty() {
                let response = response::read(bytes, method, *limits, fields);
                if matches!(response, Ok(None)) {
                    unread.extend_from_slice(bytes);
                }
                return response;
            }
            unread.extend_from_slice(bytes);
            response::read(unread, method, *limits, fields)
        });
        Poll::Ready(match ready!(read) {
            Ok(Some(response)) => response.and_then(checked).map_err(UpstreamError::Bad),
            Ok(None) | Err(_) if self.connection.sending.total() > 0 => Err(UpstreamError::Ended),
            Ok(None) | Err(_) => Err(UpstreamError::Unsent),
        })
    }

    /// Returns the reader of the response's body.
    pub(crate) fn into_reader(self, response: &mut UpstreamResponse) -> ResponseReader {
        let framing = std::mem::replace(&mut response.framing, super::framing::Framing::EMPTY);
        let rest = std::mem::take(&mut response.rest);
        ResponseReader::new(self.connection, framing, rest, response.may_keep)
    }

    /// Returns the socket, after a response that switches protocols.
    pub(crate) fn into_connection(self) -> Box<UpstreamConnection> {
        self.connection
    }

    /// Waits, without a client, until the worker has responded or has closed the connection (None).
    /// If the request is incomplete, shuts down the sending side, so that a reading worker notices.
    pub(crate) async fn wait_without_client(&mut self) -> Option<Box<UpstreamResponse>> {
        if self.is_sending() {
            // A worker that fails to read gets no error either.
            let socket = &mut self.connection.socket;
            let _ = poll_fn(|context| Pin::new(&mut *socket).poll_shutdown(context)).await;
            self.connection.sending.stop();
        }
        // An error ends the exchange like a response.
        poll_fn(|context| self.poll_response(context)).await.ok()
    }
}

fn checked(
    response: Option<Box<UpstreamResponse>>,
) -> Result<Option<Box<UpstreamResponse>>, UpstreamResponseError> {
    response.iter().try_for_each(|response| response.check_body())?;
    Ok(response)
}
