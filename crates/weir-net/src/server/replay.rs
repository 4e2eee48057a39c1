//! A connection as hyper sees it: first the bytes that were read before, then the socket. A
//! [`Watch`] records hyper's reads and writes for deadlines, and limits how much hyper may read.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ConnectionStream;

/// Observes the bytes of a connection.
pub(super) trait Watch {
    /// Returns how many of these bytes hyper may read now; 0 blocks hyper. May change those bytes.
    /// The others are passed again unchanged.
    fn admit(&self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    /// Called after bytes were read.
    fn read(&self, bytes: &[u8]);

    /// Called before a write.
    fn begin_write(&self) {}

    /// Called after a write; `is_taken`: whether the kernel took bytes.
    fn wrote(&self, is_taken: bool);

    /// Called when the kernel has all written bytes.
    fn flushed(&self) {}
}

#[derive(Debug)]
pub(super) struct Replay<W> {
    stream: ConnectionStream,
    read: Vec<u8>,
    replayed: usize,
    /// How many bytes of `read` have gone through [`Watch::admit`] before.
    admitted: usize,
    watch: Rc<W>,
}

impl<W: Watch> Replay<W> {
    pub(super) fn new(stream: ConnectionStream, read: Vec<u8>, watch: Rc<W>) -> Self {
        Self::resume(stream, read, 0, watch)
    }

    /// Creates one whose first `admitted` bytes have gone through [`Watch::admit`] before.
    pub(super) fn resume(
        stream: ConnectionStream,
        read: Vec<u8>,
        admitted: usize,
        watch: Rc<W>,
    ) -> Self {
        Self { stream, read, replayed: 0, admitted, watch }
    }

    /// Returns the socket and the bytes that hyper has not read.
    pub(super) fn into_parts(self) -> (ConnectionStream, Vec<u8>) {
        let mut read = self.read;
        read.drain(..self.replayed);
        (self.stream, read)
    }

    pub(super) fn stream(&self) -> &ConnectionStream {
        &self.stream
    }

    /// Notes that hyper has read `count` of the earlier bytes.
    fn replay(&mut self, count: usize) {
        self.replayed += count;
        if self.replayed == self.read.len() {
            (self.read, self.replayed, self.admitted) = (Vec::new(), 0, 0);
        }
    }

    fn record_write<T>(&self, written: Poll<T>) -> Poll<T> {
        self.watch.wrote(written.is_ready());
        written
    }
}

impl<W: Watch> AsyncRead for Replay<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let is_replayed = self.replayed < self.read.len();
        if is_replayed {
            let until = if self.replayed < self.admitted { self.admitted } else { self.read.len() };
            let waiting = &self.read[self.replayed..until];
            into.put_slice(&waiting[..waiting.len().min(into.remaining())]);
        } else {
            ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        }
        let arrived = &mut into.filled_mut()[before..];
        if arrived.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let count = if self.replayed < self.admitted {
            arrived.len()
        } else {
            let count = self.watch.admit(arrived)?;
            self.watch.read(&arrived[..count]);
            count
        };
        if !is_replayed && count < arrived.len() {
            self.read = arrived[count..].to_vec();
        }
        into.set_filled(before + count);
        if is_replayed {
            self.replay(count);
        }
        if count == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl<W: Watch> AsyncWrite for Replay<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.watch.begin_write();
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.record_write(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.watch.begin_write();
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.record_write(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = AsyncWrite::poll_flush(Pin::new(&mut self.stream), context);
        if flushed.is_ready() {
            self.watch.flushed();
        }
        self.record_write(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.stream).poll_shutdown(context);
        self.record_write(shut_down)
    }
}
