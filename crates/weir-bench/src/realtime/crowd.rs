//! All clients of a run on one epoll instance and one thread; the publishing thread is woken, and wakes it.
//!
//! The clients share the machine with the server they measure, so an event costs each of them one read: sockets are
//! watched by edges, a read that leaves room in the buffer is the last, and one buffer serves all.

mod arrival;
mod members;
mod publishing;
mod slow_clients;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use super::attendance::{AfterClose, Attendance};
use super::client::{Client, Stage};
use super::ending::{Ending, wait_after};
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
/// Marks the wake-ups of the publishing thread among what epoll reports; clients have their numbers.
const WAKE: u64 = u64::MAX;

pub(crate) struct Crowd {
    target: Target,
    epoll: OwnedFd,
    buffer: Vec<u8>,
    /// Each in the place of its index, but for a part of them on a thread of its own.
    clients: Vec<Client>,
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
        let channels = around.channel_names.len();
        let at = now();
        let clients: Vec<_> =
            (0..settings.clients).map(|index| Client::new(index, index % channels, at)).collect();
        for client in &clients {
            around.ledger.add_subscriber(client.channel);
        }
        Self::of(clients, target, settings, around)
    }

    /// With just these clients.
    fn of(
        clients: Vec<Client>,
        target: &Target,
        settings: &LoadSettings,
        around: Surroundings,
    ) -> Result<Self> {
        let sources = Sources::new(settings.source_addresses);
        Ok(Self {
            target: target.clone(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            buffer: vec![0; READ_BYTES],
            clients,
            sources,
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

    /// Starts the way in of the client in this place.
    pub(crate) fn open(&mut self, place: usize) -> Result<()> {
        let index = self.clients[place].index;
        let receive_buffer = (index < self.slow_clients).then_some(self.slow_receive_buffer);
        let to = self.target.url.address;
        let socket = socket::open(&self.sources, index, to, receive_buffer)
            .with_context(|| format!("client {index}, from {}", self.sources.address(index)))?;
        socket::watch(&self.epoll, &socket, place as u64)?;
        self.clients[place].open(socket, now());
        self.attendance.arriving += 1;
        Ok(())
    }

    /// Waits for what happens until `deadline` at most, and serves it. May return earlier.
    pub(crate) fn turn(&mut self, deadline: Instant) -> Result<()> {
        let mut room = [MaybeUninit::uninit(); EVENTS_MAX];
        for event in self.wait(&mut room, deadline)? {
            let epoll::Event { flags, data } = *event;
            if let (false, Ok(index)) = (data.u64() == WAKE, usize::try_from(data.u64())) {
                self.serve_client(index, flags);
            }
        }
        self.serve_publishing()?;
        self.bring_back()
    }

    fn wait<'a>(
        &self,
        room: &'a mut [MaybeUninit<epoll::Event>; EVENTS_MAX],
        deadline: Instant,
    ) -> Result<&'a [epoll::Event]> {
        let next_return = self.returns.peek().map(|Reverse((at, _))| *at);
        let until = next_return.map_or(deadline, |at| at.min(deadline));
        let timeout = until.saturating_duration_since(now()).min(WAIT_MAX);
        let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok((events, _)) => Ok(events),
            Err(rustix::io::Errno::INTR) => Ok(&[]),
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
