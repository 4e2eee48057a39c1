//! Publishes over HTTP on connections that stay open: one request at a time on each.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::fd::OwnedFd;

use super::codec::excerpt;
use super::socket::{self, IoOutcome};
use super::target::ServerUrl;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 4096;

/// The outcome of a publish.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published {
    Accepted(u32),
    /// The server rejected it.
    Rejected(u32, String),
    /// The connection broke before the response.
    Unknown(u32),
}

#[derive(Debug, Default)]
pub(crate) struct Publisher {
    slots: Vec<PublishConnection>,
    /// Connections without a request in flight, in turn, so that each node gets as many events.
    idle: VecDeque<usize>,
}

/// One connection.
#[derive(Debug)]
struct PublishConnection {
    /// `None` after it broke.
    socket: Option<OwnedFd>,
    event: Option<u32>,
    unsent: Vec<u8>,
    response: Vec<u8>,
}

impl Publisher {
    /// Opens one more connection. Returns its index, and the socket to register.
    pub(crate) fn open(&mut self, to: &ServerUrl) -> io::Result<(usize, &OwnedFd)> {
        let broken = self.slots.iter().position(|connection| connection.socket.is_none());
        let index = broken.unwrap_or(self.slots.len());
        let stream = TcpStream::connect_timeout(&to.address(index).into(), CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let connection = PublishConnection {
            socket: None,
            event: None,
            unsent: Vec::new(),
            response: Vec::new(),
        };
        match broken {
            Some(index) => self.slots[index] = connection,
            None => self.slots.push(connection),
        }
        self.idle.push_back(index);
        Ok((index, self.slots[index].socket.insert(stream.into())))
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    pub(crate) fn connections(&self) -> usize {
        self.slots.iter().filter(|connection| connection.socket.is_some()).count()
    }

    /// Sends `request` on an idle connection, of which there must be one. Returns the outcome if the connection
    /// broke.
    pub(crate) fn send(&mut self, event: u32, request: &[u8]) -> Option<Published> {
        let index = self.idle.pop_front().expect("the caller has made sure of an idle connection");
        let connection = &mut self.slots[index];
        connection.event = Some(event);
        match connection.write(request) {
            true => None,
            false => self.on_broken(index),
        }
    }

    /// Handles a connection that is readable or writable.
    pub(crate) fn on_ready(&mut self, index: usize) -> Option<Published> {
        let connection = &mut self.slots[index];
        connection.socket.as_ref()?;
        let unsent = std::mem::take(&mut connection.unsent);
        let is_alive = connection.write(&unsent) && connection.read();
        let published = self.take_response(index);
        if is_alive { published } else { published.or(self.on_broken(index)) }
    }

    fn take_response(&mut self, index: usize) -> Option<Published> {
        let connection = &mut self.slots[index];
        let outcome = parse_response(&connection.response)?;
        let event = connection.event.take()?;
        connection.response.clear();
        self.idle.push_back(index);
        Some(match outcome {
            Ok(()) => Published::Accepted(event),
            Err(text) => Published::Rejected(event, text),
        })
    }

    fn on_broken(&mut self, index: usize) -> Option<Published> {
        self.idle.retain(|idle| *idle != index);
        let connection = &mut self.slots[index];
        connection.socket = None;
        connection.event.take().map(Published::Unknown)
    }
}

impl PublishConnection {
    /// Writes `bytes`. Returns false if the connection is closed.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let sent = match socket::write(socket, bytes) {
            IoOutcome::Bytes(count) => count,
            IoOutcome::WouldBlock => 0,
            IoOutcome::Closed => return false,
        };
        self.unsent.extend(&bytes[sent..]);
        true
    }

    /// Reads until the socket is empty, as edge-triggered epoll requires. Returns false if the connection is closed.
    fn read(&mut self) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let mut chunk = [0; READ_BYTES];
        loop {
            match socket::read(socket, &mut chunk) {
                IoOutcome::Bytes(count) => self.response.extend(&chunk[..count]),
                IoOutcome::WouldBlock => return true,
                IoOutcome::Closed => return false,
            }
        }
    }
}

/// Returns the outcome of a publish, or `None` while the response is incomplete.
fn parse_response(response: &[u8]) -> Option<Result<(), String>> {
    let head_end = memchr::memmem::find(response, b"\r\n\r\n")? + 4;
    let (head, body) = (&response[..head_end], &response[head_end..]);
    let Some(length) = content_length(head) else {
        return Some(Err(format!("an answer without Content-Length: {}", excerpt(response))));
    };
    if body.len() < length {
        return None;
    }
    // Centrifugo reports errors in the body of a response with status 200.
    let is_fine =
        head.get(9..12) == Some(b"200") && memchr::memmem::find(body, b"\"error\"").is_none();
    Some(if is_fine { Ok(()) } else { Err(excerpt(response)) })
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    value.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_counts_once_its_body_is_complete() {
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(parse_response(response), Some(Ok(())));
        assert_eq!(parse_response(&response[..response.len() - 1]), None);
    }

    #[test]
    fn errors_are_read_from_status_and_body() {
        for response in [
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\n\r\nno\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"error\":{\"code\":102}}   ",
            "HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            assert!(matches!(parse_response(response.as_bytes()), Some(Err(_))), "{response}");
        }
    }
}
