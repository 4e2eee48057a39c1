//! The connection as hyper sees it. hyper owns it to its end, so its drop decides how to close.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::progress::Http2Progress;
use crate::server::replay::Replay;

#[derive(Debug)]
pub(super) struct Http2Socket {
    replay: Replay<Http2Progress>,
    progress: Rc<Http2Progress>,
}

impl Http2Socket {
    pub(super) fn new(replay: Replay<Http2Progress>, progress: Rc<Http2Progress>) -> Self {
        Self { replay, progress }
    }
}

impl Drop for Http2Socket {
    fn drop(&mut self) {
        if self.progress.is_aborted() {
            // Errors do not matter: the socket is closed either way.
            let _ = self.replay.stream().set_linger_zero();
        }
    }
}

impl AsyncRead for Http2Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.replay).poll_read(context, into)
    }
}

impl AsyncWrite for Http2Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.replay).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.replay).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.replay.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.replay).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.replay).poll_shutdown(context)
    }
}
