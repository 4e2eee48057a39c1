//! Sockets that never block: thousands of them, from several addresses of this machine.

use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustix::time::Timespec;

use super::source::Sources;
pub(crate) use crate::socket::{Moved, read, write};

/// Begins to connect client `index` of `sources` to `to`. A small `receive_buffer` lets a client that does not read
/// be felt soon.
pub(crate) fn open(
    sources: &Sources,
    index: usize,
    to: SocketAddrV4,
    receive_buffer: Option<usize>,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // Closing is cutting: no TIME_WAIT is left that the next run would have to wait for.
    sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
    if let Some(bytes) = receive_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    sources.bind(&socket, index)?;
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// By edges, because thousands of sockets are watched: an edge costs one report, whatever is left to read.
pub(crate) fn watch(epoll: &OwnedFd, socket: &OwnedFd, number: u64) -> Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, socket, EventData::new_u64(number), flags).context("watching a socket")
}

/// For who has nothing else to do meanwhile.
pub(crate) fn wait_until_connected(socket: &OwnedFd) -> io::Result<()> {
    let mut watched = [PollFd::new(socket, PollFlags::OUT)];
    poll(&mut watched, None)?;
    Ok(sockopt::socket_error(socket)??)
}

/// Whether the other side has ended the connection, whatever is left to read.
pub(crate) fn has_hung_up(socket: &OwnedFd) -> io::Result<bool> {
    let mut watched = [PollFd::new(socket, PollFlags::RDHUP)];
    poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(watched[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
}
