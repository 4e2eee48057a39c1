//! One thread that accepts, serves one request, and only then accepts the next.

use anyhow::{Context, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};
use rustix::time::Timespec;

use super::busy_record::BusyRecord;
use super::request::{self, Request};
use crate::socket::{self, IoOutcome};

/// How long a client may take to send its request.
const HEAD_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most open connections; another one is closed after its response.
const KEEP_ALIVE_MAX: usize = 1024;
const EVENTS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Server {
    epoll: OwnedFd,
    listeners: Vec<OwnedFd>,
    /// Open connections by index; `None` if the index is free.
    connections: Vec<Option<OwnedFd>>,
    keep_alive: bool,
    busy: Option<BusyRecord>,
    /// The fields of all responses.
    fields: String,
    response: Vec<u8>,
    input: Vec<u8>,
}

/// What happens to a connection after a request.
#[derive(Debug, PartialEq, Eq)]
enum AfterRequest {
    KeepOpen,
    Close,
}

impl Server {
    pub(super) fn new(
        listeners: Vec<OwnedFd>,
        name: &str,
        keep_alive: bool,
        busy: Option<BusyRecord>,
    ) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, listener) in listeners.iter().enumerate() {
            ioctl_fionbio(listener, true)?;
            let data = EventData::new_u64(index as u64);
            // Exclusive: of several workers that wait for one socket the kernel wakes only one.
            epoll::add(&epoll, listener, data, EventFlags::IN | EventFlags::EXCLUSIVE)?;
        }
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let fields = format!(
            "HTTP/1.1 200 OK\r\nX-Worker: {name}\r\nContent-Type: text/plain\r\n\
             Connection: {connection}\r\n"
        );
        let (response, input) = (response(&fields, b"ok"), vec![0; HEAD_BYTES_MAX]);
        let connections = Vec::new();
        Ok(Self { epoll, listeners, connections, keep_alive, busy, fields, response, input })
    }

    /// Serves until the process is killed.
    pub(super) fn run(mut self) -> Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            while self.accept_and_serve()? {}
            if let Some(busy) = &self.busy {
                busy.mark_idle();
            }
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for requests"),
            }
            for event in events.drain(..) {
                let epoll::Event { data, .. } = event;
                let number = usize::try_from(data.u64()).unwrap_or(usize::MAX);
                if let Some(index) = number.checked_sub(self.listeners.len()) {
                    self.serve_connection(index);
                }
            }
        }
    }

    /// Accepts and serves one connection, preferring the first sockets. Returns whether there was one.
    fn accept_and_serve(&mut self) -> Result<bool> {
        for index in 0..self.listeners.len() {
            match accept_with(&self.listeners[index], SocketFlags::CLOEXEC) {
                Ok(connection) => {
                    if self.serve_request(&connection) == AfterRequest::KeepOpen {
                        self.add_connection(connection)?;
                    }
                    return Ok(true);
                }
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error).context("accepting"),
            }
        }
        Ok(false)
    }

    fn serve_connection(&mut self, index: usize) {
        let Some(connection) = self.connections[index].take() else {
            return;
        };
        if self.serve_request(&connection) == AfterRequest::KeepOpen {
            self.connections[index] = Some(connection);
        }
    }

    fn add_connection(&mut self, connection: OwnedFd) -> Result<()> {
        let free = self.connections.iter().position(Option::is_none);
        let index = free.unwrap_or(self.connections.len());
        if index == KEEP_ALIVE_MAX {
            return Ok(());
        }
        let data = EventData::new_u64((self.listeners.len() + index) as u64);
        epoll::add(&self.epoll, &connection, data, EventFlags::IN)?;
        if index == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[index] = Some(connection);
        Ok(())
    }

    /// Serves one request, blocking the thread.
    fn serve_request(&mut self, connection: &OwnedFd) -> AfterRequest {
        if let Some(busy) = &self.busy {
            busy.mark_busy();
        }
        let Some(Request { service, echo }) = self.read_request(connection) else {
            return AfterRequest::Close;
        };
        if !service.is_zero() {
            std::thread::sleep(service);
        }
        let echoed = echo.map(|word| response(&self.fields, &word));
        let response = echoed.as_ref().unwrap_or(&self.response);
        let sent = socket::write(connection, response) == IoOutcome::Bytes(response.len());
        if let Some(busy) = &self.busy {
            busy.count_request();
        }
        if sent && self.keep_alive { AfterRequest::KeepOpen } else { AfterRequest::Close }
    }

    /// Reads a request. `None` if the client closed the connection, is too slow, or
    /// sends too much.
    fn read_request(&mut self, connection: &OwnedFd) -> Option<Request> {
        let mut filled = 0;
        loop {
            match recv(connection, &mut self.input[filled..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return None,
                Ok((bytes, _)) => filled += bytes,
                Err(Errno::AGAIN) if is_readable_in_time(connection) => {}
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
            if let Some(end) = request::head_end(&self.input[..filled]) {
                return Some(request::parse(&self.input[..end]));
            }
        }
    }
}

fn response(fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut response = format!("{fields}Content-Length: {length}\r\n\r\n").into_bytes();
    response.extend_from_slice(body);
    response
}

fn is_readable_in_time(connection: impl AsFd) -> bool {
    let mut poll_fds = [PollFd::new(&connection, PollFlags::IN)];
    matches!(poll(&mut poll_fds, Some(&HEAD_TIMEOUT)), Ok(1))
}
