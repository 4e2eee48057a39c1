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
pub(super) struct InHand {
    progress: Rc<Http2Progress>,
    /// None: no particular client.
    client: Option<ClientRequest>,
}

impl InHand {
    /// Takes over a request that was counted with [`Http2Progress::begin_request`].
    pub(super) fn begun(progress: &Rc<Http2Progress>) -> Self {
        Self { progress: Rc::clone(progress), client: None }
    }

    /// Makes the request count for a client as well.
    pub(super) fn count_for(&mut self, client: ClientRequest) {
        self.client = Some(client);
    }
}

impl Drop for InHand {
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
pub(super) struct Answering {
    /// None: it arrived too late.
    pub(super) answer: Option<Pin<Box<dyn Future<Output = Response<ResponseBody>>>>>,
    /// None: the response was passed to hyper, or the request arrived too late.
    pub(super) in_hand: Option<InHand>,
    /// Whether it is a HEAD request, whose response has no body.
    pub(super) is_head: bool,
    pub(super) taken: Rc<SendProgress>,
}

impl Future for Answering {
    type Output = Result<Response<Pieces>, h2::Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = &mut self.answer else {
            // Tells the client that the request was not processed and may be repeated (RFC 9113,
            // section 8.7).
            return Poll::Ready(Err(Reason::REFUSED_STREAM.into()));
        };
        answer.as_mut().poll(context).map(|mut answer| {
            if self.is_head {
                leave_out_body(&mut answer);
            }
            let (in_hand, taken) = (self.in_hand.take(), Rc::clone(&self.taken));
            let within = answer.extensions().get::<AnswerWithin>();
            taken.until.set(within.map(|within| Instant::now() + within.0));
            Ok(answer.map(|body| Pieces { body, rest: Bytes::new(), _in_hand: in_hand, taken }))
        })
    }
}

/// Removes the body of a response to HEAD, which hyper does for HTTP/1 only.
fn leave_out_body(answer: &mut Response<ResponseBody>) {
    if answer.body().is_end_stream() {
        return;
    }
    if let Some(length) = answer.body().size_hint().exact() {
        answer.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    *answer.body_mut() = ResponseBody::empty();
}

/// The body of a response, in pieces.
#[derive(Debug)]
pub(super) struct Pieces {
    body: ResponseBody,
    /// The rest of the body's last frame.
    rest: Bytes,
    _in_hand: Option<InHand>,
    taken: Rc<SendProgress>,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        // hyper polls again once the previous piece was sent.
        this.taken.waits_since.set(None);
        if this.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        this.taken.waits_since.set(Some(Instant::now()));
        let mut piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        if this.taken.until.get().is_some() {
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
        let here = self.rest.len() as u64;
        let hint = self.body.size_hint();
        let mut all = SizeHint::default();
        all.set_lower(hint.lower() + here);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + here);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_is_given_in_pieces_and_waits_between_them() {
        let bytes = 2 * PIECE_BYTES + 1;
        let taken = Rc::new(SendProgress::default());
        let body = ResponseBody::from(vec![b'x'; bytes]);
        let mut pieces =
            Pieces { body, rest: Bytes::new(), _in_hand: None, taken: Rc::clone(&taken) };
        assert_eq!(pieces.size_hint().exact(), Some(bytes as u64));
        for (piece, left) in [(PIECE_BYTES, PIECE_BYTES + 1), (PIECE_BYTES, 1), (1, 0)] {
            assert!(!pieces.is_end_stream());
            let frame = pieces.frame().await.expect("a frame").expect("no error");
            assert_eq!(frame.into_data().expect("data").len(), piece);
            assert_eq!(pieces.size_hint().exact(), Some(left as u64));
            assert!(taken.waits_since().is_some());
        }
        assert!(pieces.is_end_stream());
        assert!(pieces.frame().await.is_none());
        assert!(taken.waits_since().is_none());
    }
}
