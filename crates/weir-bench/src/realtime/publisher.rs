//! Publishes over HTTP on connections that stay open: one request at a time on each.

use std::io;
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

use rustix::fd::OwnedFd;

use super::socket::{self, Moved};
use super::speech::excerpt;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 4096;

/// What became of a publish.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published {
    Accepted(u32),
    /// The server said no.
    Refused(u32, String),
    /// The connection broke before the answer: nobody knows.
    Unknown(u32),
}

#[derive(Debug, Default)]
pub(crate) struct Publisher {
    couriers: Vec<Courier>,
    /// Couriers without a request under way; the one that was used last is used first.
    idle: Vec<usize>,
}

/// One connection.
#[derive(Debug)]
struct Courier {
    /// `None` after it broke.
    socket: Option<OwnedFd>,
    event: Option<u32>,
    unsent: Vec<u8>,
    answer: Vec<u8>,
}

impl Publisher {
    /// Opens one more connection; its index, and the socket to watch.
    pub(crate) fn open(&mut self, to: SocketAddrV4) -> io::Result<(usize, &OwnedFd)> {
        let stream = TcpStream::connect_timeout(&to.into(), CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let broken = self.couriers.iter().position(|courier| courier.socket.is_none());
        let index = broken.unwrap_or(self.couriers.len());
        let courier = Courier { socket: None, event: None, unsent: Vec::new(), answer: Vec::new() };
        match broken {
            Some(index) => self.couriers[index] = courier,
            None => self.couriers.push(courier),
        }
        self.idle.push(index);
        Ok((index, self.couriers[index].socket.insert(stream.into())))
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    pub(crate) fn connections(&self) -> usize {
        self.couriers.iter().filter(|courier| courier.socket.is_some()).count()
    }

    /// Sends `request` on an idle connection, of which there must be one. `Some` if it broke.
    pub(crate) fn send(&mut self, event: u32, request: &[u8]) -> Option<Published> {
        let index = self.idle.pop().expect("the caller has made sure of an idle connection");
        let courier = &mut self.couriers[index];
        courier.event = Some(event);
        match courier.write(request) {
            true => None,
            false => self.broke(index),
        }
    }

    /// The connection can be read or written.
    pub(crate) fn ready(&mut self, index: usize) -> Option<Published> {
        let courier = &mut self.couriers[index];
        courier.socket.as_ref()?;
        let unsent = std::mem::take(&mut courier.unsent);
        let is_alive = courier.write(&unsent) && courier.read();
        let answered = self.answered(index);
        if is_alive { answered } else { answered.or(self.broke(index)) }
    }

    fn answered(&mut self, index: usize) -> Option<Published> {
        let courier = &mut self.couriers[index];
        let outcome = outcome(&courier.answer)?;
        let event = courier.event.take()?;
        courier.answer.clear();
        self.idle.push(index);
        Some(match outcome {
            Ok(()) => Published::Accepted(event),
            Err(text) => Published::Refused(event, text),
        })
    }

    fn broke(&mut self, index: usize) -> Option<Published> {
        self.idle.retain(|idle| *idle != index);
        let courier = &mut self.couriers[index];
        courier.socket = None;
        courier.event.take().map(Published::Unknown)
    }
}

impl Courier {
    /// False if the connection is gone.
    fn write(&mut self, bytes: &[u8]) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let sent = match socket::write(socket, bytes) {
            Moved::Bytes(count) => count,
            Moved::NotNow => 0,
            Moved::Gone => return false,
        };
        self.unsent.extend(&bytes[sent..]);
        true
    }

    /// The same; reads until there is nothing more, as edges demand.
    fn read(&mut self) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let mut chunk = [0; READ_BYTES];
        loop {
            match socket::read(socket, &mut chunk) {
                Moved::Bytes(count) => self.answer.extend(&chunk[..count]),
                Moved::NotNow => return true,
                Moved::Gone => return false,
            }
        }
    }
}

/// `None` while the answer is not all there.
fn outcome(answer: &[u8]) -> Option<Result<(), String>> {
    let head_end = memchr::memmem::find(answer, b"\r\n\r\n")? + 4;
    let (head, body) = (&answer[..head_end], &answer[head_end..]);
    let Some(length) = content_length(head) else {
        return Some(Err(format!("an answer without Content-Length: {}", excerpt(answer))));
    };
    if body.len() < length {
        return None;
    }
    // Centrifugo answers 200 and says in the body that something went wrong.
    let is_fine =
        head.get(9..12) == Some(b"200") && memchr::memmem::find(body, b"\"error\"").is_none();
    Some(if is_fine { Ok(()) } else { Err(excerpt(answer)) })
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
    fn an_answer_counts_once_its_body_is_there() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(outcome(answer), Some(Ok(())));
        assert_eq!(outcome(&answer[..answer.len() - 1]), None);
    }

    #[test]
    fn errors_are_found_in_the_status_and_in_the_body() {
        for answer in [
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\n\r\nno\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"error\":{\"code\":102}}   ",
            "HTTP/1.1 200 OK\r\n\r\n{}",
        ] {
            assert!(matches!(outcome(answer.as_bytes()), Some(Err(_))), "{answer}");
        }
    }
}
