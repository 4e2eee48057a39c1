//! All clients and publishing connections of a run on one epoll instance and one thread.
//!
//! The clients share the machine with the server they measure, so an event costs each of them one read: sockets are
//! watched by edges, a read that leaves room in the buffer is the last, and one buffer serves all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use super::client::{Client, Ending, Stage, Surroundings};
use super::publisher::{Published, Publisher};
use super::settings::LoadSettings;
use super::socket;
use super::target::Target;
use crate::clock::{now, unix_seconds};
use crate::latency::Latencies;
use crate::tally::Faults;

/// Room offered to one read; grows only for a longer frame.
const READ_BYTES: usize = 64 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// Longest wait for anything: settings are in seconds.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Marks the publishing connections among what epoll reports.
const COURIER: u64 = 1 << 63;
/// Publishing connections that a run opens at most.
const COURIERS_MAX: usize = 64;
/// How long client libraries wait after a connection that did not come about, and the longest they are spread over
/// after one that was cut.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What a client does whose connection ends although it was subscribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterClose {
    /// Stays away: a fault of the server.
    Fault,
    /// Stays away: it was to be expected.
    Stay,
    /// Comes back as client libraries do.
    Return,
}

pub(crate) struct Crowd {
    target: Target,
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
    clients: Vec<Client>,
    publisher: Publisher,
    source_addresses: u8,
    slow_clients: usize,
    slow_receive_buffer: usize,
    returns: BinaryHeap<Reverse<(Instant, usize)>>,
    pub(crate) around: Surroundings,
    pub(crate) after_close: AfterClose,
    pub(crate) attendance: Attendance,
}

/// Who is there, and how they came.
#[derive(Debug, Clone)]
pub(crate) struct Attendance {
    /// Clients that are subscribed.
    pub(crate) live: usize,
    /// Clients on their way.
    pub(crate) arriving: usize,
    /// From the first packet until subscribed.
    pub(crate) arrivals: Latencies,
    pub(crate) last_arrival: Option<Instant>,
    /// Attempts that the server turned away for now.
    pub(crate) refused: u64,
    /// Clients that no client library would bring back.
    pub(crate) refused_for_good: u64,
    /// Connections of subscribed clients that the server ended.
    pub(crate) closed: u64,
    pub(crate) first_closed: Option<Instant>,
    pub(crate) faults: Faults,
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
            source_addresses: settings.source_addresses,
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
        let from = socket::source_address(index, self.source_addresses);
        let receive_buffer = (index < self.slow_clients).then_some(self.slow_receive_buffer);
        let socket = socket::open(from, self.target.url.address, receive_buffer)
            .with_context(|| format!("client {index} of {}, from {from}", self.clients.len()))?;
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
        let attendance = &mut self.attendance;
        if was_live {
            attendance.live -= 1;
            attendance.closed += 1;
            attendance.first_closed.get_or_insert_with(now);
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
                let wait = wait_after(&Ending::HungUp, true).unwrap_or(RETRY_AFTER);
                self.returns.push(Reverse((now() + wait, index)));
            }
        }
    }

    /// The slow clients stop reading; nobody expects them to hear anything from here on.
    pub(crate) fn stop_reading(&mut self) -> Result<()> {
        for client in &self.clients[..self.slow_clients] {
            if let Some(socket) = &client.socket {
                epoll::delete(&self.epoll, socket).context("a client that stops reading")?;
            }
            self.around.ledger.remove_subscriber(client.channel);
        }
        Ok(())
    }

    /// Slow clients whose connections the server has ended.
    pub(crate) fn slow_closed(&self) -> Result<usize> {
        let mut closed = 0;
        for client in &self.clients[..self.slow_clients] {
            let Some(socket) = &client.socket else {
                closed += 1;
                continue;
            };
            closed += usize::from(socket::has_hung_up(socket).context("asking after a socket")?);
        }
        Ok(closed)
    }

    /// Opens publishing connections until there are `count`.
    pub(crate) fn open_publishers(&mut self, count: usize) -> Result<()> {
        while self.publisher.connections() < count.min(COURIERS_MAX) {
            self.open_publisher().context("connecting to publish")?;
        }
        Ok(())
    }

    fn open_publisher(&mut self) -> io::Result<()> {
        let (index, socket) = self.publisher.open(self.target.url.address)?;
        watch(&self.epoll, socket, COURIER | index as u64).map_err(io::Error::other)
    }

    /// Publishes the next event. False if no connection is free, or none can be had.
    pub(crate) fn publish(&mut self, channel: usize) -> bool {
        if !self.publisher.has_idle() {
            let full = self.publisher.connections() >= COURIERS_MAX;
            if full || self.open_publisher().is_err() {
                return false;
            }
        }
        let Surroundings { speech, data, ledger, channel_names, .. } = &mut self.around;
        let number = u32::try_from(ledger.published()).expect("fewer than 2^32 events");
        let request = speech.publish(&channel_names[channel], &data.of(number), unix_seconds());
        let number = ledger.publish(channel, now());
        if let Some(outcome) = self.publisher.send(number, &request) {
            self.take_outcome(outcome);
        }
        true
    }

    /// Publishes that the server has not answered.
    pub(crate) fn unanswered(&self) -> usize {
        self.publisher.under_way()
    }

    fn serve_courier(&mut self, index: usize) {
        if let Some(outcome) = self.publisher.ready(index) {
            self.take_outcome(outcome);
        }
    }

    fn take_outcome(&mut self, outcome: Published) {
        let Surroundings { ledger, counts, .. } = &mut self.around;
        match outcome {
            Published::Accepted(number) => ledger.accepted(number, now()),
            Published::Refused(number, text) => {
                ledger.void(number);
                self.attendance.faults.add(1, || format!("a publish was refused: {text}"));
            }
            Published::Unknown(number) => {
                ledger.void(number);
                counts.publishes_unknown += 1;
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

impl Attendance {
    fn new() -> Self {
        Self {
            live: 0,
            arriving: 0,
            arrivals: Latencies::new(),
            last_arrival: None,
            refused: 0,
            refused_for_good: 0,
            closed: 0,
            first_closed: None,
            faults: Faults::default(),
        }
    }

    fn arrived(&mut self, at: Instant, opened: Instant) {
        self.live += 1;
        self.arriving -= 1;
        self.arrivals.record(at - opened);
        self.last_arrival = Some(at);
    }
}

fn watch(epoll: &OwnedFd, socket: &OwnedFd, number: u64) -> Result<()> {
    let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
    epoll::add(epoll, socket, EventData::new_u64(number), flags).context("watching a socket")
}

/// When a client library connects again (pusher-js): at once after 42xx, never after 40xx and 43xx, else within a
/// second or after one. `None`: never.
fn wait_after(ending: &Ending, was_live: bool) -> Option<Duration> {
    let spread = RETRY_AFTER.mul_f64(fastrand::f64());
    match ending {
        Ending::Code(4200..=4299) => Some(Duration::ZERO),
        Ending::Code(4000..=4099 | 4300..) | Ending::Refused(_) => None,
        Ending::Status(400..=428 | 430..=499) => None,
        Ending::HungUp | Ending::Code(_) | Ending::Status(_) if was_live => Some(spread),
        Ending::HungUp | Ending::Code(_) | Ending::Status(_) => Some(RETRY_AFTER),
    }
}
