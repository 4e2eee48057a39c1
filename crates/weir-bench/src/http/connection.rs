//! One connection of the client: what is under way on it, and its socket.

use std::io;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

use super::Load;
use super::url::HttpUrl;
use crate::socket::{self, Moved};

/// Room offered to one read; grows only for an answer that is larger.
const READ_BYTES: usize = 4096;

/// A request that is due.
#[derive(Debug)]
pub(super) struct Request<W> {
    /// When it should be sent: latencies count from here, so that a client or a server that falls behind is charged.
    pub(super) intended: Instant,
    pub(super) wanted: W,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    Connecting,
    /// Open, nothing under way.
    Idle,
    /// The request was sent.
    Asked,
}

#[derive(Debug)]
pub(super) struct Connection<W> {
    socket: Option<OwnedFd>,
    pub(super) phase: Phase,
    pub(super) request: Option<Request<W>>,
    /// Answers that came on this socket.
    answers: u64,
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
            answers: 0,
            out,
            input,
            filled: 0,
        }
    }

    /// Begins to connect; `epoll` tells when it is done, under `number`.
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
        self.answers = 0;
        self.socket = Some(socket);
        self.phase = Phase::Connecting;
        Ok(())
    }

    /// After it has become writable.
    pub(super) fn connected(&mut self, epoll: &OwnedFd, number: u64) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        sockopt::socket_error(socket)??;
        epoll::modify(epoll, socket, EventData::new_u64(number), EventFlags::IN)?;
        self.phase = Phase::Idle;
        Ok(())
    }

    /// Sends the request that was given to it. False: the server has closed the connection.
    pub(super) fn ask<L: Load<Wanted = W>>(&mut self, load: &L) -> bool {
        let (Some(request), Some(socket)) = (&self.request, &self.socket) else {
            return false;
        };
        self.out.clear();
        load.write(&request.wanted, &mut self.out);
        self.filled = 0;
        self.phase = Phase::Asked;
        // Nothing else is under way: there is room for it (REQUEST_BYTES_MAX).
        socket::write(socket, &self.out) == Moved::Bytes(self.out.len())
    }

    /// One read.
    pub(super) fn read(&mut self) -> Moved {
        let Some(socket) = &self.socket else {
            return Moved::Gone;
        };
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        let moved = socket::read(socket, &mut self.input[self.filled..]);
        if let Moved::Bytes(bytes) = moved {
            self.filled += bytes;
        }
        moved
    }

    pub(super) fn received(&self) -> &[u8] {
        &self.input[..self.filled]
    }

    /// The server may close a connection that it has served on; what was just sent on it reached nobody.
    pub(super) fn was_closed_while_idle(&self) -> bool {
        self.answers > 0 && self.filled == 0
    }

    pub(super) fn answered(&mut self, keep: bool) {
        self.request = None;
        self.answers += 1;
        if keep {
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
