//! One connection of the client: its socket and the request in flight.

use std::io;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

use super::Load;
use super::url::HttpUrl;
use crate::socket::{self, IoOutcome};

/// Buffer of one read; grows only for a larger response.
const READ_BYTES: usize = 4096;

/// A request that is due.
#[derive(Debug)]
pub(super) struct Request<W> {
    /// When it is due. Latencies count from here, so that they include the delays of a client or server that falls
    /// behind.
    pub(super) intended: Instant,
    pub(super) item: W,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Connecting,
    /// Open, with no request in flight.
    Idle,
    /// The request was sent.
    AwaitingResponse,
}

#[derive(Debug)]
pub(super) struct Connection<W> {
    socket: Option<OwnedFd>,
    pub(super) phase: Phase,
    pub(super) request: Option<Request<W>>,
    /// Responses received on this socket.
    responses: u64,
    out: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
}

impl<W> Connection<W> {
    pub(super) fn new() -> Self {
        let (out, input) = (Vec::new(), vec![0; READ_BYTES]);
        Self {
            socket: None,
            phase: Phase::Closed,
            request: None,
            responses: 0,
            out,
            input,
            filled: 0,
        }
    }

    /// Starts to connect. epoll reports the end of it under `number`.
    pub(super) fn open(&mut self, url: &HttpUrl, epoll: &OwnedFd, number: u64) -> io::Result<()> {
        let family = match url.address.is_ipv4() {
            true => AddressFamily::INET,
            false => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        match connect(&socket, &url.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        epoll::add(epoll, &socket, EventData::new_u64(number), EventFlags::OUT)?;
        self.responses = 0;
        self.socket = Some(socket);
        self.phase = Phase::Connecting;
        Ok(())
    }

    /// Finishes connecting, after the socket has become writable.
    pub(super) fn on_connected(&mut self, epoll: &OwnedFd, number: u64) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        sockopt::socket_error(socket)??;
        epoll::modify(epoll, socket, EventData::new_u64(number), EventFlags::IN)?;
        self.phase = Phase::Idle;
        Ok(())
    }

    /// Sends the connection's request. Returns false if the server has closed the connection.
    pub(super) fn send_request<L: Load<Item = W>>(&mut self, load: &L) -> bool {
        let (Some(request), Some(socket)) = (&self.request, &self.socket) else {
            return false;
        };
        self.out.clear();
        load.write(&request.item, &mut self.out);
        self.filled = 0;
        self.phase = Phase::AwaitingResponse;
        // The socket is idle, so its buffer has room (REQUEST_BYTES_MAX).
        socket::write(socket, &self.out) == IoOutcome::Bytes(self.out.len())
    }

    /// Reads once.
    pub(super) fn read(&mut self) -> IoOutcome {
        let Some(socket) = &self.socket else {
            return IoOutcome::Closed;
        };
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        let moved = socket::read(socket, &mut self.input[self.filled..]);
        if let IoOutcome::Bytes(bytes) = moved {
            self.filled += bytes;
        }
        moved
    }

    pub(super) fn received(&self) -> &[u8] {
        &self.input[..self.filled]
    }

    /// Returns whether the server closed the connection while it was idle, so that it did not receive the last
    /// request.
    pub(super) fn was_closed_while_idle(&self) -> bool {
        self.responses > 0 && self.filled == 0
    }

    pub(super) fn finish_response(&mut self, keep_alive: bool) {
        self.request = None;
        self.responses += 1;
        if keep_alive {
            self.phase = Phase::Idle;
        } else {
            self.close();
        }
    }

    pub(super) fn close(&mut self) {
        self.socket = None;
        self.phase = Phase::Closed;
        self.filled = 0;
    }
}
