//! All clients and publishing connections of a run on one epoll instance and one thread.
//!
//! The clients share the machine with the server they measure, so an event costs each of them one read: sockets are
//! watched by edges, a read that leaves room in the buffer is the last, and one buffer serves all.

mod members;
mod publishing;
mod slow_clients;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use super::attendance::{AfterClose, Attendance};
use super::client::{Client, Stage};
use super::ending::{Ending, wait_after};
use super::publisher::Publisher;
use super::settings::LoadSettings;
use super::socket;
use super::source::Sources;
use super::surroundings::Surroundings;
use super::target::Target;
use crate::clock::now;

/// Room offered to one read; grows only for a longer frame.
const READ_BYTES: usize = 64 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// Longest wait for anything: settings are in seconds.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Marks the publishing connections among what epoll reports.
const COURIER: u64 = 1 << 63;

pub(crate) struct Crowd {
    target: Target,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    clients: Vec<Client>,
    publisher: Publisher,
    sources: Sources,
    slow_clients: usize,
    slow_receive_buffer: usize,
    returns: BinaryHeap<Reverse<(Instant, usize)>>,
    pub(crate) around: Surroundings,
    pub(crate) after_close: AfterClose,
    pub(crate) attendance: Attendance,
}

impl Crowd {
    pub(crate) fn new(
        target: &Target,
        settings: &LoadSettings,
        mut around: Surroundings,
    ) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let channels = around.channel_names.len();
        let at = now();
        let clients: Vec<_> =
            (0..settings.clients).map(|index| Client::new(index, index % channels, at)).collect();
        for client in &clients {
            around.ledger.add_subscriber(client.channel);
        }
        Ok(Self {
            target: target.clone(),
            epoll,
            events: Vec::with_capacity(EVENTS_MAX),
            buffer: vec![0; READ_BYTES],
            clients,
            publisher: Publisher::default(),
            sources: Sources::new(settings.source_addresses),
            slow_clients: settings.slow,
            slow_receive_buffer: settings.slow_receive_buffer_bytes,
            returns: BinaryHeap::new(),
            around,
            after_close: AfterClose::Fault,
            attendance: Attendance::new(),
        })
    }

    /// Nobody is on the way or waits to come again.
    pub(crate) fn has_everyone_arrived(&self) -> bool {
        self.attendance.arriving == 0 && self.returns.is_empty()
    }

    /// Starts one client's way in.
    pub(crate) fn open(&mut self, index: usize) -> Result<()> {
        let receive_buffer = (index < self.slow_clients).then_some(self.slow_receive_buffer);
        let to = self.target.url.address;
        let socket = socket::open(&self.sources, index, to, receive_buffer).with_context(|| {
            let (from, clients) = (self.sources.address(index), self.clients.len());
            format!("client {index} of {clients}, from {from}")
        })?;
        watch(&self.epoll, &socket, index as u64)?;
        self.clients[index].open(socket, now());
        self.attendance.arriving += 1;
        Ok(())
    }

    /// Waits for what happens until `deadline` at most, and serves it. May return earlier.
    pub(crate) fn turn(&mut self, deadline: Instant) -> Result<()> {
        self.wait(deadline)?;
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            let epoll::Event { flags, data } = event;
            let number = data.u64();
            match usize::try_from(number & !COURIER) {
                Ok(index) if number & COURIER != 0 => self.serve_courier(index),
                Ok(index) => self.serve_client(index, flags),
                Err(_) => {}
            }
        }
        self.events = events;
        self.bring_back()
    }

    fn wait(&mut self, deadline: Instant) -> Result<()> {
        let next_return = self.returns.peek().map(|Reverse((at, _))| *at);
        let until = next_return.map_or(deadline, |at| at.min(deadline));
        let timeout = until.saturating_duration_since(now()).min(WAIT_MAX);
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
        let room = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(io::Error::from(error)).context("waiting for sockets"),
        }
    }

    fn serve_client(&mut self, index: usize, flags: EventFlags) {
        let client = &mut self.clients[index];
        let before = client.stage;
        if before == Stage::Closed {
            return;
        }
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let mut outcome = Ok(());
        if flags.contains(EventFlags::OUT) {
            outcome = client.writable(&self.around);
        }
        if outcome.is_ok() && (flags.contains(EventFlags::IN) || hung_up) {
            outcome = client.readable(&mut self.buffer, hung_up, &mut self.around, now);
        }
        if before != Stage::Live && client.stage == Stage::Live {
            self.attendance.arrived(now(), client.opened);
        }
        if let Err(ending) = outcome {
            self.end(index, &ending);
        }
    }

    /// A connection is no more: who comes back, and when.
    fn end(&mut self, index: usize, ending: &Ending) {
        let client = &mut self.clients[index];
        let was_live = client.stage == Stage::Live;
        client.close();
        if was_live {
            client.members.forget(&mut self.around.roll);
        }
        let attendance = &mut self.attendance;
        if was_live {
            attendance.live -= 1;
            attendance.closed += 1;
            attendance.first_closed.get_or_insert_with(now);
            *attendance.endings.entry(ending.name()).or_default() += 1;
            match self.after_close {
                AfterClose::Fault => {
                    attendance
                        .faults
                        .add(1, || format!("a subscribed client was closed: {ending:?}"));
                    return;
                }
                AfterClose::Stay => return,
                AfterClose::Return => {}
            }
        } else {
            attendance.arriving -= 1;
            attendance.refused += 1;
        }
        match wait_after(ending, was_live) {
            Some(wait) => self.returns.push(Reverse((now() + wait, index))),
            None => {
                attendance.refused_for_good += 1;
                attendance.faults.add(1, || format!("a client was refused for good: {ending:?}"));
            }
        }
    }

    fn bring_back(&mut self) -> Result<()> {
        while let Some(Reverse((at, index))) = self.returns.peek().copied() {
            if at > now() {
                break;
            }
            self.returns.pop();
            self.open(index)?;
        }
        Ok(())
    }

    /// Cuts every subscribed client off, as a network does that fails; each comes back in its time.
    pub(crate) fn cut_all(&mut self) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if client.stage == Stage::Live {
                client.close();
                self.attendance.live -= 1;
                if let Some(wait) = wait_after(&Ending::HungUp, true) {
                    self.returns.push(Reverse((now() + wait, index)));
                }
            }
        }
    }

    /// How many clients are subscribed, and whether all are.
    pub(crate) fn check_all_live(&self) -> Result<()> {
        let (live, clients) = (self.attendance.live, self.clients.len());
        let why = self.attendance.faults.first.as_deref().unwrap_or("no answer");
        ensure!(live == clients, "only {live} of {clients} clients could subscribe: {why}");
        Ok(())
    }
}

fn watch(epoll: &OwnedFd, socket: &OwnedFd, number: u64) -> Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, socket, EventData::new_u64(number), flags).context("watching a socket")
}
