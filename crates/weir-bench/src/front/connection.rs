//! One connection of the client: what is under way on it, and its socket.

use std::io;
use std::io::Write;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt};

use super::schedule::Request;
use super::url::AppUrl;
use crate::socket::{self, Moved};

/// Room offered to one read; grows only for an answer that is larger.
const READ_BYTES: usize = 4096;

/// What is written around a request's service time.
#[derive(Debug)]
pub(crate) struct RequestText {
    before: String,
    after: String,
}

impl RequestText {
    pub(crate) fn new(url: &AppUrl, keep_alive: bool) -> Self {
        let connection = if keep_alive { "" } else { "Connection: close\r\n" };
        Self {
            before: format!("GET {}?us=", url.path),
            after: format!(" HTTP/1.1\r\nHost: {}\r\n{connection}\r\n", url.host),
        }
    }

    fn write(&self, request: &Request, out: &mut Vec<u8>) {
        out.clear();
        let (before, after) = (&self.before, &self.after);
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{before}{}{after}", request.service.as_micros());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Closed,
    Connecting,
    /// Open, nothing under way.
    Idle,
    /// The request was sent.
    Asked,
}

#[derive(Debug)]
pub(crate) struct Connection {
    socket: Option<OwnedFd>,
    pub(crate) phase: Phase,
    pub(crate) request: Option<Request>,
    /// Answers that came on this socket.
    answers: u64,
    out: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
}

impl Connection {
    pub(crate) fn new() -> Self {
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
    pub(crate) fn open(&mut self, url: &AppUrl, epoll: &OwnedFd, number: u64) -> io::Result<()> {
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
    pub(crate) fn connected(&mut self, epoll: &OwnedFd, number: u64) -> io::Result<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        sockopt::socket_error(socket)??;
        epoll::modify(epoll, socket, EventData::new_u64(number), EventFlags::IN)?;
        self.phase = Phase::Idle;
        Ok(())
    }

    /// Sends the request that was given to it. False: the server has closed the connection.
    pub(crate) fn ask(&mut self, text: &RequestText) -> bool {
        let (Some(request), Some(socket)) = (&self.request, &self.socket) else {
            return false;
        };
        text.write(request, &mut self.out);
        self.filled = 0;
        self.phase = Phase::Asked;
        // A request is some 80 bytes, and nothing else is under way: there is room for it.
        socket::write(socket, &self.out) == Moved::Bytes(self.out.len())
    }

    /// One read.
    pub(crate) fn read(&mut self) -> Moved {
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

    pub(crate) fn received(&self) -> &[u8] {
        &self.input[..self.filled]
    }

    /// The server may close a connection that it has served on; what was just sent on it reached nobody.
    pub(crate) fn was_closed_while_idle(&self) -> bool {
        self.answers > 0 && self.filled == 0
    }

    pub(crate) fn answered(&mut self, keep: bool) {
        self.request = None;
        self.answers += 1;
        if keep {
            self.phase = Phase::Idle;
        } else {
            self.close();
        }
    }

    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.phase = Phase::Closed;
        self.filled = 0;
    }
}
