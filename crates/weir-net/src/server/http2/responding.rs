//! One stream's request. It is in progress until hyper has got all of the response, in pieces that
//! limit what hyper buffers.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::Reason;
use hyper::Response;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use tokio::time::Instant;

use super::progress::Http2Progress;
use crate::client::ClientRequest;
use crate::server::{AnswerWithin, BoxError, ResponseBody};

/// The size of a piece. hyper buffers one piece in addition to
/// [`crate::server::Http2Limits::send_buffer_bytes`]. Also the largest frame of a connection.
const PIECE_BYTES: usize = 16 << 10;

/// A request that is in progress until this is dropped.
#[derive(Debug)]
pub(super) struct RequestGuard {
    progress: Rc<Http2Progress>,
    /// None: no particular client.
    client: Option<ClientRequest>,
}

impl RequestGuard {
    /// Takes over a request that was counted with [`Http2Progress::begin_request`].
    pub(super) fn new(progress: &Rc<Http2Progress>) -> Self {
        Self { progress: Rc::clone(progress), client: None }
    }

    /// Makes the request count for a client as well.
    pub(super) fn count_for(&mut self, client: ClientRequest) {
        self.client = Some(client);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.progress.end_request();
    }
}

/// Whether the client reads a stream's response.
#[derive(Debug, Default)]
pub(super) struct SendProgress {
    /// Since when a piece has waited to be sent.
    waits_since: Cell<Option<Instant>>,
    /// The deadline of the whole response.
    until: Cell<Option<Instant>>,
}

impl SendProgress {
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.waits_since.get()
    }

    pub(super) fn until(&self) -> Option<Instant> {
        self.until.get()
    }
}

/// A request to which the service responds.
pub(super) struct RespondingStream {
    /// None: it arrived too late.
    pub(super) response: Option<Pin<Box<dyn Future<Output = Response<ResponseBody>>>>>,
    /// None: the response was passed to hyper, or the request arrived too late.
    pub(super) guard: Option<RequestGuard>,
    /// Whether it is a HEAD request, whose response has no body.
    pub(super) is_head: bool,
    pub(super) send_progress: Rc<SendProgress>,
}

impl Future for RespondingStream {
    type Output = Result<Response<Pieces>, h2::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(response) = &mut self.response else {
            // Tells the client that the request was not processed and may be repeated (RFC 9113,
            // section 8.7).
            return Poll::Ready(Err(Reason::REFUSED_STREAM.into()));
        };
        response.as_mut().poll(context).map(|mut response| {
            if self.is_head {
                leave_out_body(&mut response);
            }
            let (guard, send_progress) = (self.guard.take(), Rc::clone(&self.send_progress));
            let within = response.extensions().get::<AnswerWithin>();
            send_progress.until.set(within.map(|within| Instant::now() + within.0));
            Ok(response.map(|body| Pieces {
                body,
                rest: Bytes::new(),
                _guard: guard,
                send_progress,
            }))
        })
    }
}

/// Removes the body of a response to HEAD, which hyper does for HTTP/1 only.
fn leave_out_body(response: &mut Response<ResponseBody>) {
    if response.body().is_end_stream() {
        return;
    }
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    *response.body_mut() = ResponseBody::empty();
}

/// The body of a response, in pieces.
#[derive(Debug)]
pub(super) struct Pieces {
    body: ResponseBody,
    /// The rest of the body's last frame.
    rest: Bytes,
    _guard: Option<RequestGuard>,
    send_progress: Rc<SendProgress>,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let pieces = &mut *self;
        // hyper polls again once the previous piece was sent.
        pieces.send_progress.waits_since.set(None);
        if pieces.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut pieces.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => pieces.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        pieces.send_progress.waits_since.set(Some(Instant::now()));
        let mut piece = pieces.rest.split_to(pieces.rest.len().min(PIECE_BYTES));
        if pieces.send_progress.until.get().is_some() {
            // hyper may hold the last piece for long, and a slice would keep the whole frame in
            // memory.
            piece = Bytes::copy_from_slice(&piece);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let buffered = self.rest.len() as u64;
        let hint = self.body.size_hint();
        let mut all = SizeHint::default();
        all.set_lower(hint.lower() + buffered);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + buffered);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_is_sent_in_pieces_with_waits_between() {
        let bytes = 2 * PIECE_BYTES + 1;
        let send_progress = Rc::new(SendProgress::default());
        let body = ResponseBody::from(vec![b'x'; bytes]);
        let mut pieces = Pieces {
            body,
            rest: Bytes::new(),
            _guard: None,
            send_progress: Rc::clone(&send_progress),
        };
        assert_eq!(pieces.size_hint().exact(), Some(bytes as u64));
        for (piece, left) in [(PIECE_BYTES, PIECE_BYTES + 1), (PIECE_BYTES, 1), (1, 0)] {
            assert!(!pieces.is_end_stream());
            let frame = pieces.frame().await.expect("a frame").expect("no error");
            assert_eq!(frame.into_data().expect("data").len(), piece);
            assert_eq!(pieces.size_hint().exact(), Some(left as u64));
            assert!(send_progress.waits_since().is_some());
        }
        assert!(pieces.is_end_stream());
        assert!(pieces.frame().await.is_none());
        assert!(send_progress.waits_since().is_none());
    }
}
