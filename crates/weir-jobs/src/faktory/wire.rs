//! Reads complete lines from a connection, and sends its replies together.
//!
//! Lines that arrive together are returned together. No line is longer than its limit or takes
//! longer than its timeout. While a command runs, a disconnect of the client is noticed.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use memchr::{memchr, memrchr};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::buffers::{BUFFER_BYTES, Buffer, Buffers};
use super::error::FaktoryError;
use super::replies::Replies;
use super::signal::{Signal, SignalLevel};
use crate::metrics::JobServerLimit;

/// Why a connection is closed.
#[derive(Debug)]
pub(crate) enum CloseReason {
    /// The client disconnected, or the server closes the connection without an error.
    Silent,
    /// The connection is closed with this error, which is sent to the client.
    Rejected(FaktoryError),
    /// A limit after which the client can't receive an error.
    Limit(JobServerLimit),
    /// The socket returned an error.
    Io(io::Error),
}

impl From<FaktoryError> for CloseReason {
    fn from(error: FaktoryError) -> Self {
        Self::Rejected(error)
    }
}

impl From<io::Error> for CloseReason {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// How [`Wire::watch`] ended.
#[derive(Debug)]
pub(crate) enum Watched<T> {
    Done(T),
    /// The signal reached the requested level first.
    Signalled,
    /// The client closed its side, or the socket failed, first.
    Disconnected,
}

/// The limits of one line, and of all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineLimits {
    pub(crate) bytes_max: usize,
    /// The limit that `bytes_max` stands for.
    pub(crate) limit: JobServerLimit,
    /// Limit over all connections.
    pub(crate) buffered_bytes_max: usize,
    /// Time from the first byte of the line to its last.
    pub(crate) timeout: Duration,
}

/// A client's socket with the bytes received and the replies to send.
#[derive(Debug)]
pub(crate) struct Wire<IO> {
    io: IO,
    arrived: Option<Buffer>,
    /// Number of bytes of `arrived` that were searched and have no line end.
    searched: usize,
    ended: bool,
    buffers: Rc<Buffers>,
    signal: Rc<Signal>,
    pub(crate) replies: Replies,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Wire<IO> {
    pub(crate) fn new(io: IO, buffers: Rc<Buffers>, signal: Rc<Signal>) -> Self {
        let replies = Replies::new(Rc::clone(&buffers));
        Self { io, arrived: None, searched: 0, ended: false, buffers, signal, replies }
    }

    /// Returns all complete lines received. Waits for the first one if there is none.
    pub(crate) async fn lines(&mut self, limits: LineLimits) -> Result<Buffer, CloseReason> {
        if let Some(lines) = self.take_lines() {
            return Ok(lines);
        }
        if self.arrived.is_none() {
            self.read_more(limits).await?;
        }
        match self.take_lines() {
            Some(lines) => Ok(lines),
            None => self.rest_of_line(limits).await,
        }
    }

    /// Reads the rest of a line within its timeout.
    async fn rest_of_line(&mut self, limits: LineLimits) -> Result<Buffer, CloseReason> {
        let rest = async {
            loop {
                self.read_more(limits).await?;
                if let Some(lines) = self.take_lines() {
                    return Ok(lines);
                }
            }
        };
        let seconds = limits.timeout.as_secs();
        let late = |_| CloseReason::Rejected(FaktoryError::LineTimeout { seconds });
        timeout(limits.timeout, rest).await.map_err(late)?
    }

    async fn read_more(&mut self, limits: LineLimits) -> Result<(), CloseReason> {
        poll_fn(|context| self.poll_read_more(context, limits)).await
    }

    /// Returns the first complete line received, waiting for it if necessary. Further bytes stay in
    /// the buffer.
    pub(crate) async fn line(&mut self, limits: LineLimits) -> Result<Vec<u8>, CloseReason> {
        let mut lines = self.lines(limits).await?;
        let end = memchr(b'\n', &lines).map_or(lines.len(), |end| end + 1);
        let line = lines[..end].to_vec();
        if end < lines.len() {
            if let Some(following) = &self.arrived {
                lines.extend_from_slice(following);
            }
            lines.drain(..end);
            self.arrived = Some(lines);
            self.searched = 0;
        }
        Ok(line)
    }

    /// Removes the complete lines from the buffer. An incomplete line stays.
    fn take_lines(&mut self) -> Option<Buffer> {
        let arrived = self.arrived.as_mut()?;
        let found = memrchr(b'\n', &arrived[self.searched..]);
        let Some(end) = found.map(|at| self.searched + at + 1) else {
            self.searched = arrived.len();
            return None;
        };
        self.searched = 0;
        let mut rest = None;
        if end < arrived.len() {
            let mut incomplete_line = self.buffers.take();
            incomplete_line.extend_from_slice(&arrived[end..]);
            incomplete_line.count();
            arrived.truncate(end);
            rest = Some(incomplete_line);
        }
        std::mem::replace(&mut self.arrived, rest)
    }

    /// Reads once. Returns an error if the client, the signal or a limit ends the connection.
    fn poll_read_more(
        &mut self,
        context: &mut Context<'_>,
        limits: LineLimits,
    ) -> Poll<Result<(), CloseReason>> {
        if self.ended || self.signal.poll_at_least(SignalLevel::Close, context).is_ready() {
            return Poll::Ready(Err(CloseReason::Silent));
        }
        self.make_room(limits)?;
        let count = ready!(self.poll_read(context))?;
        if count == 0 {
            self.ended = true;
            return Poll::Ready(Err(CloseReason::Silent));
        }
        Poll::Ready(Ok(()))
    }

    fn make_room(&mut self, limits: LineLimits) -> Result<(), FaktoryError> {
        let Some(arrived) = &mut self.arrived else {
            return Ok(());
        };
        if arrived.len() > limits.bytes_max {
            let LineLimits { bytes_max: max, limit, .. } = limits;
            return Err(FaktoryError::LineTooLong { max, limit });
        }
        if arrived.len() < arrived.capacity() {
            return Ok(());
        }
        // One byte more than the limit shows that a line is too long.
        let capacity_max = limits.bytes_max.saturating_add(1).max(BUFFER_BYTES);
        arrived.grow(capacity_max, limits.buffered_bytes_max).map_err(|_| FaktoryError::Buffered)
    }

    /// Reads into `arrived`, which must have room. Releases the buffer of an idle connection.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let buffers = &self.buffers;
        let arrived = self.arrived.get_or_insert_with(|| buffers.take());
        let result = {
            let read = pin!(self.io.read_buf(&mut **arrived));
            read.poll(context)
        };
        if arrived.is_empty() {
            self.arrived = None;
        }
        result
    }

    /// Runs `work` and watches for a disconnect and for the signal. Bytes that arrive are stored,
    /// up to one buffer: if a client sends more than that in advance, its disconnect is only
    /// noticed afterwards.
    pub(crate) async fn watch<W: Future>(
        &mut self,
        mut work: Pin<&mut W>,
        until: SignalLevel,
    ) -> Watched<W::Output> {
        poll_fn(|context| {
            // First: what a worker is given after it was given up would be released with nothing.
            if self.signal.poll_at_least(until, context).is_ready() {
                return Poll::Ready(Watched::Signalled);
            }
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Watched::Done(output));
            }
            self.poll_disconnect(context)
        })
        .await
    }

    fn poll_disconnect<T>(&mut self, context: &mut Context<'_>) -> Poll<Watched<T>> {
        loop {
            if self.arrived.as_ref().is_some_and(|arrived| arrived.len() == arrived.capacity()) {
                return Poll::Pending;
            }
            match ready!(self.poll_read(context)) {
                Ok(1..) => {}
                Ok(0) | Err(_) => {
                    self.ended = true;
                    return Poll::Ready(Watched::Disconnected);
                }
            }
        }
    }

    /// Sends the replies. Returns an error if the client does not read them in time.
    pub(crate) async fn send(&mut self, limit: Duration) -> Result<(), CloseReason> {
        if self.replies.bytes().is_empty() {
            return Ok(());
        }
        {
            let mut write = pin!(write_all(&mut self.io, self.replies.bytes()));
            // Usually the socket accepts everything at once, and no timer is needed.
            match poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await {
                Poll::Ready(written) => written?,
                Poll::Pending => {
                    timeout(limit, write)
                        .await
                        .map_err(|_| CloseReason::Limit(JobServerLimit::WriteTimeout))??;
                }
            }
        }
        self.replies.sent();
        Ok(())
    }

    /// Closes the server's side, so that the client reads an orderly end: over TLS that is
    /// `close_notify`, without which its library reports an error.
    pub(crate) async fn finish(mut self, limit: Duration) {
        // The connection is over whether or not this succeeds.
        let _ = timeout(limit, self.io.shutdown()).await;
    }

    /// Closes the server's side and reads for up to `linger`, so that the replies arrive: if bytes
    /// were unread at the close, the system would discard the replies.
    pub(crate) async fn close(mut self, linger: Duration) {
        self.arrived = None;
        let drained = async {
            self.io.shutdown().await?;
            let mut discarded = self.buffers.take();
            while !self.ended {
                discarded.clear();
                self.ended = self.io.read_buf(&mut *discarded).await? == 0;
            }
            io::Result::Ok(())
        };
        // The connection is over whether or not this succeeds.
        let _ = timeout(linger, drained).await;
    }
}

async fn write_all<IO: AsyncWrite + Unpin>(io: &mut IO, bytes: &[u8]) -> io::Result<()> {
    io.write_all(bytes).await?;
    io.flush().await
}
