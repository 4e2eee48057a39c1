//! One thread that accepts, serves one request, and only then looks for the next.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};
use rustix::time::Timespec;

use super::busy_record::BusyRecord;
use super::request;
use crate::socket::{self, Moved};

/// How long a client may take to send its request before it is left.
const HEAD_PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Connections that are kept open; one more is closed after its answer.
const KEPT_MAX: usize = 1024;
const EVENTS_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Server {
    epoll: OwnedFd,
    listeners: Vec<OwnedFd>,
    /// By their numbers; a number is free when there is none.
    kept: Vec<Option<OwnedFd>>,
    keeps: bool,
    busy: Option<BusyRecord>,
    answer: Vec<u8>,
    input: Vec<u8>,
}

/// What is left of a connection after a request.
#[derive(Debug, PartialEq, Eq)]
enum Left {
    Open,
    Over,
}

impl Server {
    pub(super) fn new(
        listeners: Vec<OwnedFd>,
        name: &str,
        keeps: bool,
        busy: Option<BusyRecord>,
    ) -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, listener) in listeners.iter().enumerate() {
            ioctl_fionbio(listener, true)?;
            let data = EventData::new_u64(index as u64);
            // Exclusive: of several workers that wait for one socket not all are woken.
            epoll::add(&epoll, listener, data, EventFlags::IN | EventFlags::EXCLUSIVE)?;
        }
        let connection = if keeps { "keep-alive" } else { "close" };
        let answer = format!(
            "HTTP/1.1 200 OK\r\nX-Worker: {name}\r\nContent-Type: text/plain\r\n\
             Content-Length: 2\r\nConnection: {connection}\r\n\r\nok"
        );
        let (answer, input) = (answer.into_bytes(), vec![0; HEAD_BYTES_MAX]);
        Ok(Self { epoll, listeners, kept: Vec::new(), keeps, busy, answer, input })
    }

    /// Never ends by itself.
    pub(super) fn run(mut self) -> Result<()> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            while self.serve_next_connection()? {}
            if let Some(busy) = &self.busy {
                busy.rest();
            }
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("waiting for requests"),
            }
            for event in events.drain(..) {
                let epoll::Event { data, .. } = event;
                let number = usize::try_from(data.u64()).unwrap_or(usize::MAX);
                if let Some(index) = number.checked_sub(self.listeners.len()) {
                    self.serve_kept(index);
                }
            }
        }
    }

    /// Whether there was one on any of the sockets, the first of them first.
    fn serve_next_connection(&mut self) -> Result<bool> {
        for index in 0..self.listeners.len() {
            match accept_with(&self.listeners[index], SocketFlags::CLOEXEC) {
                Ok(connection) => {
                    if self.serve(&connection) == Left::Open {
                        self.keep(connection)?;
                    }
                    return Ok(true);
                }
                Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error).context("accepting"),
            }
        }
        Ok(false)
    }

    fn serve_kept(&mut self, index: usize) {
        let Some(connection) = self.kept[index].take() else {
            return;
        };
        if self.serve(&connection) == Left::Open {
            self.kept[index] = Some(connection);
        }
    }

    fn keep(&mut self, connection: OwnedFd) -> Result<()> {
        let free = self.kept.iter().position(Option::is_none);
        let index = free.unwrap_or(self.kept.len());
        if index == KEPT_MAX {
            return Ok(());
        }
        let data = EventData::new_u64((self.listeners.len() + index) as u64);
        epoll::add(&self.epoll, &connection, data, EventFlags::IN)?;
        if index == self.kept.len() {
            self.kept.push(None);
        }
        self.kept[index] = Some(connection);
        Ok(())
    }

    /// One request and its answer. Nothing else happens meanwhile: that is what such a worker is.
    fn serve(&mut self, connection: &OwnedFd) -> Left {
        if let Some(busy) = &self.busy {
            busy.begin();
        }
        let Some(service) = self.read_request(connection) else {
            return Left::Over;
        };
        if !service.is_zero() {
            std::thread::sleep(service);
        }
        let sent = socket::write(connection, &self.answer) == Moved::Bytes(self.answer.len());
        if let Some(busy) = &self.busy {
            busy.answered();
        }
        if sent && self.keeps { Left::Open } else { Left::Over }
    }

    /// `None` if the client is gone, too slow, or says too much.
    fn read_request(&mut self, connection: &OwnedFd) -> Option<Duration> {
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
                return Some(request::service_time(&self.input[..end]));
            }
        }
    }
}

fn is_readable_in_time(connection: impl AsFd) -> bool {
    let mut watched = [PollFd::new(&connection, PollFlags::IN)];
    matches!(poll(&mut watched, Some(&HEAD_PATIENCE)), Ok(1))
}
