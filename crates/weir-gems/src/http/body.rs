//! Response bodies that are too long to copy: pieces of a text, and files.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::task::JoinHandle;
use weir_net::server::ResponseBody;

use crate::index::text::Text;

/// A body that consists of the pieces of a text.
struct Pieces {
    pieces: VecDeque<Bytes>,
    left: u64,
}

/// Returns a body with a range of a text. The bytes are shared with other responses.
pub(super) fn of_text(text: &Text, range: Range<u64>) -> ResponseBody {
    of_pieces(text.range(range).collect())
}

/// Returns a body of several byte buffers. Each is freed once it is sent.
pub(super) fn of_pieces(mut pieces: VecDeque<Bytes>) -> ResponseBody {
    let left = pieces.iter().map(|piece| piece.len() as u64).sum();
    match pieces.len() {
        0 => ResponseBody::empty(),
        1 => pieces.pop_front().unwrap_or_default().into(),
        _ => ResponseBody::new(Pieces { pieces, left }),
    }
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Maximum number of bytes to read from a file at once.
const CHUNK_BYTES: u64 = 128 << 10;

/// A body with a range of a file, read on blocking threads.
struct FilePart {
    file: Arc<File>,
    at: u64,
    end: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

/// Returns a body with a range of a file.
pub(super) fn of_file(file: File, range: Range<u64>) -> ResponseBody {
    let (at, end) = (range.start, range.end);
    ResponseBody::new(FilePart { file: Arc::new(file), at, end, reading: None })
}

impl FilePart {
    fn read(&self) -> JoinHandle<io::Result<Bytes>> {
        let (file, at) = (Arc::clone(&self.file), self.at);
        let length = (self.end - at).min(CHUNK_BYTES);
        tokio::task::spawn_blocking(move || {
            // This can't fail: the length is at most CHUNK_BYTES.
            let mut chunk = vec![0; usize::try_from(length).unwrap_or_default()];
            file.read_exact_at(&mut chunk, at)?;
            Ok(chunk.into())
        })
    }
}

impl HttpBody for FilePart {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.at == self.end {
            return Poll::Ready(None);
        }
        let mut reading = match self.reading.take() {
            Some(reading) => reading,
            None => self.read(),
        };
        let Poll::Ready(read) = Pin::new(&mut reading).poll(context) else {
            self.reading = Some(reading);
            return Poll::Pending;
        };
        let chunk = read.map_err(io::Error::other).flatten()?;
        self.at += chunk.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.at == self.end
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.end - self.at)
    }
}
