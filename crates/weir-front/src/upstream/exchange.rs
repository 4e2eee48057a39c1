//! A request to a worker and the head of its response.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::Method;
use tokio::io::AsyncWrite;

use super::answer::{self, BadAnswer, HeadLimits, UpstreamResponse};
use super::connection::UpstreamConnection;
use super::outgoing::{BadBody, Outgoing};
use super::reader::AnswerReader;
use super::sending::{Framed, Sending};

/// Why there is no response from a worker.
#[derive(Debug)]
pub(crate) enum UpstreamError {
    /// The connection had ended before anything was sent.
    Unsent,
    /// The connection ended before a response.
    Ended,
    Bad(BadAnswer),
    /// The request's own body.
    Body(BadBody),
}

/// One request on one connection. It keeps its progress: a poll continues where the one
/// before it stopped.
#[derive(Debug)]
pub(crate) struct Exchange {
    connection: Box<UpstreamConnection>,
    method: Method,
    limits: HeadLimits,
}

impl Exchange {
    /// `bytes`: the request's head, and of its body what has come already; `body`: what is to come.
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

    /// Bytes of the request that have left.
    pub(crate) fn sent(&self) -> u64 {
        self.connection.sending.total()
    }

    /// Some of the request is still to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.connection.sending.is_done()
    }

    /// Some of the request's body has not come from the client yet.
    pub(crate) fn is_uploading(&self) -> bool {
        self.connection.sending.is_uploading()
    }

    /// Nothing can go on before the client sends more of its body.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.connection.sending.waits_for_client()
    }

    /// What there is of the body; all of it if the exchange is [`UpstreamError::Unsent`].
    pub(crate) fn into_body(mut self) -> Option<Outgoing> {
        self.connection.sending.take_body()
    }

    /// The head of the response, while the request is being sent.
    pub(crate) fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Box<UpstreamResponse>, UpstreamError>> {
        let UpstreamConnection { socket, sending, .. } = &mut *self.connection;
        if let Err(error) = sending.poll(socket, context) {
            return Poll::Ready(Err(UpstreamError::Body(error)));
        }
        loop {
            if let Some(answer) = ready!(self.poll_head(context)).transpose() {
                return Poll::Ready(answer);
            }
        }
    }

    /// None: more is needed.
    fn poll_head(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Box<UpstreamResponse>>, UpstreamError>> {
        let Self { connection, method, limits } = self;
        let UpstreamConnection { socket, unread, fields, .. } = &mut **connection;
        let read = socket.poll_take(context, |bytes| {
            if unread.is_empty() {
                let answer = answer::read(bytes, method, *limits, fields);
                if matches!(answer, Ok(None)) {
                    unread.extend_from_slice(bytes);
                }
                return answer;
            }
            unread.extend_from_slice(bytes);
            answer::read(unread, method, *limits, fields)
        });
        Poll::Ready(match ready!(read) {
            Ok(Some(answer)) => answer.and_then(checked).map_err(UpstreamError::Bad),
            Ok(None) | Err(_) if self.connection.sending.total() > 0 => Err(UpstreamError::Ended),
            Ok(None) | Err(_) => Err(UpstreamError::Unsent),
        })
    }

    /// The rest of the response.
    pub(crate) fn into_reader(self, answer: &mut UpstreamResponse) -> AnswerReader {
        let framing = std::mem::replace(&mut answer.framing, super::framing::Framing::EMPTY);
        let rest = std::mem::take(&mut answer.rest);
        AnswerReader::new(self.connection, framing, rest, answer.may_keep)
    }

    /// The socket, after a response that switches protocols.
    pub(crate) fn into_connection(self) -> Box<UpstreamConnection> {
        self.connection
    }

    /// No client waits for the response any more: resolves when the worker has sent one, or has closed the connection
    /// (None). A body that is not there any more ends where it is, which a worker that reads can see.
    pub(crate) async fn outlive_client(&mut self) -> Option<Box<UpstreamResponse>> {
        if self.is_sending() {
            // A worker that does not listen says nothing either.
            let socket = &mut self.connection.socket;
            let _ = poll_fn(|context| Pin::new(&mut *socket).poll_shutdown(context)).await;
            self.connection.sending.give_up();
        }
        // Whatever it is, it is over.
        poll_fn(|context| self.poll_answer(context)).await.ok()
    }
}

fn checked(
    answer: Option<Box<UpstreamResponse>>,
) -> Result<Option<Box<UpstreamResponse>>, BadAnswer> {
    answer.iter().try_for_each(|answer| answer.check_body())?;
    Ok(answer)
}
