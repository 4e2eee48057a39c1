//! Request bodies with a limit on how long the client may be silent.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Body as HttpBody;
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use weir_net::server::BoxError;

/// A request body of any type, boxed so that the code that reads it is compiled once.
pub(super) type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// A request body with a timeout for silence.
pub(super) struct Patient {
    body: RequestBody,
    patience: Duration,
    /// Timer that runs while the client is silent.
    silence: Option<Pin<Box<Sleep>>>,
}

/// Reasons why a body could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body did not arrive in time (gems.limits.advanced.body_timeout)")]
    Late,
    #[error("the body broke off: {0}")]
    Broken(BoxError),
}

impl Patient {
    pub(super) fn new(body: RequestBody, patience: Duration) -> Self {
        Self { body, patience, silence: None }
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else { break };
            self.silence = None;
            match frame.transpose() {
                Err(error) => return Poll::Ready(Some(Err(BodyError::Broken(error)))),
                Ok(None) => return Poll::Ready(None),
                // Trailers are ignored.
                Ok(Some(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
            }
        }
        let patience = self.patience;
        let silence = self.silence.get_or_insert_with(|| Box::pin(sleep(patience)));
        silence.as_mut().poll(context).map(|()| Some(Err(BodyError::Late)))
    }

    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|context| self.poll_chunk(context)).await.transpose()
    }
}

impl Stream for Patient {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_chunk(context)
    }
}
