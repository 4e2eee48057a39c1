//! The reading ends, read as the clients of a run are.

use std::net::SocketAddrV4;

use anyhow::Result;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;

use crate::realtime::socket::{self, IoOutcome};
use crate::realtime::source::Sources;

const READ_BYTES: usize = 64 * 1024;
const EVENTS_MAX: usize = 256;

pub(super) struct Readers {
    epoll: OwnedFd,
    pub(super) sockets: Vec<OwnedFd>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl Readers {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sockets: Vec::new(),
            events: Vec::with_capacity(EVENTS_MAX),
            buffer: vec![0; READ_BYTES],
        })
    }

    pub(super) fn add(&mut self, sources: &Sources, index: usize, to: SocketAddrV4) -> Result<()> {
        let socket = socket::open(sources, index, to, None)?;
        socket::wait_until_connected(&socket)?;
        let data = EventData::new_u64(self.sockets.len() as u64);
        epoll::add(&self.epoll, &socket, data, EventFlags::IN | EventFlags::ET)?;
        self.sockets.push(socket);
        Ok(())
    }

    /// Reads until `bytes` have arrived.
    pub(super) fn read(&mut self, bytes: usize) -> Result<()> {
        let mut missing = bytes;
        while missing > 0 {
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), None)?;
            for event in self.events.drain(..) {
                let epoll::Event { data, .. } = event;
                let socket = &self.sockets[usize::try_from(data.u64())?];
                missing = missing.saturating_sub(read_all(socket, &mut self.buffer)?);
            }
        }
        Ok(())
    }
}

/// A short read has emptied the socket.
fn read_all(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize> {
    let mut all = 0;
    loop {
        match socket::read(socket, buffer) {
            IoOutcome::Bytes(count) if count < buffer.len() => return Ok(all + count),
            IoOutcome::Bytes(count) => all += count,
            IoOutcome::WouldBlock => return Ok(all),
            IoOutcome::Closed => anyhow::bail!("the writer closed a connection"),
        }
    }
}
