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
pub(crate) use crate::socket::{IoOutcome, read, write};

/// Starts to connect client `index` of `sources` to `to`. With a small `receive_buffer` the server soon notices that
/// a client does not read.
pub(crate) fn open(
    sources: &Sources,
    index: usize,
    to: SocketAddrV4,
    receive_buffer: Option<usize>,
) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    // Closing resets the connection, so that no socket in TIME_WAIT delays the next run.
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

/// Registers a socket, edge-triggered: with thousands of sockets, unread data must not be reported again.
pub(crate) fn register(epoll: &OwnedFd, socket: &OwnedFd, number: u64) -> Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, socket, EventData::new_u64(number), flags).context("watching a socket")
}

/// Blocks until the socket is connected.
pub(crate) fn wait_until_connected(socket: &OwnedFd) -> io::Result<()> {
    let mut poll_fds = [PollFd::new(socket, PollFlags::OUT)];
    poll(&mut poll_fds, None)?;
    Ok(sockopt::socket_error(socket)??)
}

/// Returns whether the peer has closed the connection, even if there is unread data.
pub(crate) fn is_closed_by_peer(socket: &OwnedFd) -> io::Result<bool> {
    let mut poll_fds = [PollFd::new(socket, PollFlags::RDHUP)];
    poll(&mut poll_fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(poll_fds[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
}
