//! The body of a response: bytes in memory, or a stream of frames.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// Why a body ended early. The connection is cut, so that the client notices.
pub type BoxError = Box<dyn Error + Send + Sync>;

type Streaming = Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError>>>;

/// The body of a response. It need not be `Send`, because it stays on its core.
pub struct ResponseBody(BodyKind);

enum BodyKind {
    Full(Option<Bytes>),
    Streaming(Streaming),
}

impl ResponseBody {
    /// Creates an empty body.
    #[must_use]
    pub const fn empty() -> Self {
        Self(BodyKind::Full(None))
    }

    /// Creates a body from a stream of frames.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        let body = http_body_util::BodyExt::map_err(body, Into::into);
        Self(BodyKind::Streaming(Box::pin(body)))
    }
}

impl Default for ResponseBody {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self(BodyKind::Full(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }
}

impl From<String> for ResponseBody {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<Vec<u8>> for ResponseBody {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&'static str> for ResponseBody {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.get_mut().0 {
            BodyKind::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Streaming(body) => body.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Full(bytes) => bytes.is_none(),
            BodyKind::Streaming(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            BodyKind::Streaming(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BodyKind::Full(bytes) => formatter.debug_tuple("ResponseBody").field(bytes).finish(),
            BodyKind::Streaming(_) => formatter.write_str("Body(streaming)"),
        }
    }
}
