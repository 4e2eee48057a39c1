//! A request to a worker and the head of its answer.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hyper::Method;
use tokio::io::AsyncWrite;

use super::answer::{self, Answer, BadAnswer, HeadLimits};
use super::connection::Connection;
use super::outgoing::{BadBody, Outgoing};
use super::reader::AnswerReader;
use super::sending::{Framed, Sending};

/// Why a worker gave no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The connection had ended before anything was sent.
    Unsent,
    /// The connection ended before an answer.
    Ended,
    Bad(BadAnswer),
    /// The request's own body.
    Body(BadBody),
}

/// One request on one connection. What it has done it remembers: a poll goes on where the one
/// before it stopped.
#[derive(Debug)]
pub(crate) struct Exchange {
    connection: Connection,
    sending: Sending,
    method: Method,
    limits: HeadLimits,
    /// The beginning of a head that came in pieces.
    unread: Vec<u8>,
}

impl Exchange {
    /// `bytes`: the request's head, and of its body what has come already; `body`: what is to come.
    pub(crate) fn new(
        connection: Connection,
        method: Method,
        bytes: Vec<u8>,
        body: Option<Outgoing>,
        framed: Framed,
        limits: HeadLimits,
    ) -> Self {
        let sending = Sending::new(bytes, body, framed);
        Self { connection, sending, method, limits, unread: Vec::new() }
    }

    /// Bytes of the request that have left.
    pub(crate) fn sent(&self) -> u64 {
        self.sending.total()
    }

    /// Some of the request is still to be sent.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_done()
    }

    /// Some of the request's body has not come from the client yet.
    pub(crate) fn is_uploading(&self) -> bool {
        self.sending.is_uploading()
    }

    /// Nothing can go on before the client sends more of its body.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.sending.waits_for_client()
    }

    /// What there is of the body; all of it if the exchange is [`Trouble::Unsent`].
    pub(crate) fn into_body(self) -> Option<Outgoing> {
        self.sending.into_body()
    }

    /// The head of the answer, while the request is being sent.
    pub(crate) fn poll_answer(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Answer, Trouble>> {
        if let Err(error) = self.sending.poll(&mut self.connection.socket, context) {
            return Poll::Ready(Err(Trouble::Body(error)));
        }
        loop {
            if let Some(answer) = ready!(self.poll_head(context)).transpose() {
                return Poll::Ready(answer);
            }
        }
    }

    /// None: more is needed.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Answer>, Trouble>> {
        let Self { connection, unread, method, limits, .. } = self;
        let read = connection.poll_read(context, |bytes| {
            if unread.is_empty() {
                let answer = answer::read(bytes, method, *limits);
                if matches!(answer, Ok(None)) {
                    unread.extend_from_slice(bytes);
                }
                return answer;
            }
            unread.extend_from_slice(bytes);
            answer::read(unread, method, *limits)
        });
        Poll::Ready(match ready!(read) {
            Ok(Some(answer)) => answer.map_err(Trouble::Bad),
            Ok(None) | Err(_) if self.sending.total() > 0 => Err(Trouble::Ended),
            Ok(None) | Err(_) => Err(Trouble::Unsent),
        })
    }

    /// The rest of the answer.
    pub(crate) fn into_reader(self, answer: &mut Answer) -> AnswerReader {
        let framing = std::mem::replace(&mut answer.framing, super::framing::Framing::EMPTY);
        let rest = std::mem::take(&mut answer.rest);
        AnswerReader::new(self.connection, self.sending, framing, rest, answer.may_keep)
    }

    /// The socket, after an answer that switches protocols.
    pub(crate) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Nobody waits for the answer any more: resolves when the worker has given one, or hung up
    /// (None). A body that is not there any more ends where it is, which a worker that reads can see.
    pub(crate) async fn outlive_client(&mut self) -> Option<Answer> {
        if !self.sending.is_done() {
            // A worker that does not listen says nothing either.
            let socket = &mut self.connection.socket;
            let _ = poll_fn(|context| Pin::new(&mut *socket).poll_shutdown(context)).await;
            self.sending.give_up();
        }
        // Whatever it is, it is over.
        poll_fn(|context| self.poll_answer(context)).await.ok()
    }
}
