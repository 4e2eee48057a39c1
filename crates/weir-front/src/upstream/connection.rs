//! A connection to a worker.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::io::{AsyncRead, ReadBuf};

use super::scratch;
use super::socket::Socket;
use crate::address::Address;

/// A connection to a worker. Nothing of it was read that an answer did not take.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    /// It has carried a request before.
    pub(crate) is_reused: bool,
}

impl Connection {
    pub(crate) async fn open(address: &Address) -> io::Result<Self> {
        Ok(Self { socket: Socket::connect(address).await?, is_reused: false })
    }

    /// Whether the worker has neither closed it nor sent what nobody asked for. No system call
    /// unless something has happened to the socket.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut context = Context::from_waker(Waker::noop());
        let mut into = ReadBuf::new(&mut byte);
        Pin::new(&mut self.socket).poll_read(&mut context, &mut into).is_pending()
    }

    /// What has come: None is the end.
    pub(super) fn poll_read<T>(
        &mut self,
        context: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Poll<io::Result<Option<T>>> {
        scratch::with(|scratch| {
            let mut into = ReadBuf::new(scratch);
            let read = Pin::new(&mut self.socket).poll_read(context, &mut into);
            read.map_ok(|()| Some(into.filled()).filter(|bytes| !bytes.is_empty()).map(take))
        })
    }

    /// Bytes that have come: none are the end.
    pub(super) fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.poll_read(context, Bytes::copy_from_slice).map_ok(Option::unwrap_or_default)
    }
}
