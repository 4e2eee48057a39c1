//! All clients of a run on one epoll instance and one thread. This thread and the publishing thread wake each other.
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

use super::client::{Client, Stage};
use super::close_reason::{CloseReason, reconnect_delay};
use super::connection_stats::{AfterClose, ConnectionStats};
use super::settings::LoadSettings;
use super::shared_state::SharedState;
use super::socket;
use super::source::Sources;
use super::target::Target;
use crate::clock::now;

/// Room offered to one read; grows only for a longer frame.
const READ_BYTES: usize = 64 * 1024;
/// Most events per call of `epoll_wait`.
const EVENTS_MAX: usize = 256;
/// Longest wait for events.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// epoll's number for wake-ups by the publishing thread; clients have their indices.
const WAKER: u64 = u64::MAX;

pub(crate) struct ClientPool {
    target: Target,
    epoll: OwnedFd,
    buffer: Vec<u8>,
    /// Sorted by index. A pool on a thread of its own has only a part of them.
    clients: Vec<Client>,
    sources: Sources,
    slow_clients: usize,
    slow_receive_buffer: usize,
    reconnects: BinaryHeap<Reverse<(Instant, usize)>>,
    pub(crate) shared: SharedState,
    pub(crate) after_close: AfterClose,
    pub(crate) connections: ConnectionStats,
}

impl ClientPool {
    pub(crate) fn new(
        target: &Target,
        settings: &LoadSettings,
        mut shared: SharedState,
    ) -> Result<Self> {
        let channels = shared.channel_names.len();
        let at = now();
        let clients: Vec<_> =
            (0..settings.clients).map(|index| Client::new(index, index % channels, at)).collect();
        for client in &clients {
            shared.ledger.add_subscriber(client.channel);
        }
        Self::with_clients(clients, target, settings, shared)
    }

    /// Creates a pool of the given clients.
    fn with_clients(
        clients: Vec<Client>,
        target: &Target,
        settings: &LoadSettings,
        shared: SharedState,
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
            reconnects: BinaryHeap::new(),
            shared,
            after_close: AfterClose::Fault,
            connections: ConnectionStats::new(),
        })
    }

    /// Returns whether no client is connecting or waiting to reconnect.
    pub(crate) fn are_all_connected(&self) -> bool {
        self.connections.connecting == 0 && self.reconnects.is_empty()
    }

    /// Starts to connect the client at `slot`.
    pub(crate) fn open(&mut self, slot: usize) -> Result<()> {
        let index = self.clients[slot].index;
        let receive_buffer = (index < self.slow_clients).then_some(self.slow_receive_buffer);
        let to = self.target.url.address(index);
        let socket = socket::open(&self.sources, index, to, receive_buffer)
            .with_context(|| format!("client {index}, from {}", self.sources.address(index)))?;
        socket::register(&self.epoll, &socket, slot as u64)?;
        self.clients[slot].open(socket, now());
        self.connections.connecting += 1;
        Ok(())
    }

    /// Waits for events until `deadline` at most and handles them. May return earlier.
    pub(crate) fn poll_once(&mut self, deadline: Instant) -> Result<()> {
        let mut room = [MaybeUninit::uninit(); EVENTS_MAX];
        for event in self.wait(&mut room, deadline)? {
            let epoll::Event { flags, data } = *event;
            if let (false, Ok(index)) = (data.u64() == WAKER, usize::try_from(data.u64())) {
                self.serve_client(index, flags);
            }
        }
        self.serve_publishing()?;
        self.reconnect_due()
    }

    fn wait<'a>(
        &self,
        room: &'a mut [MaybeUninit<epoll::Event>; EVENTS_MAX],
        deadline: Instant,
    ) -> Result<&'a [epoll::Event]> {
        let next_return = self.reconnects.peek().map(|Reverse((at, _))| *at);
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
        let previous_stage = client.stage;
        if previous_stage == Stage::Closed {
            return;
        }
        let is_closed_by_server =
            flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let mut outcome = Ok(());
        if flags.contains(EventFlags::OUT) {
            outcome = client.on_writable(&self.shared);
        }
        if outcome.is_ok() && (flags.contains(EventFlags::IN) || is_closed_by_server) {
            outcome =
                client.on_readable(&mut self.buffer, is_closed_by_server, &mut self.shared, now);
        }
        if previous_stage != Stage::Live && client.stage == Stage::Live {
            self.connections.record_connected(now(), client.opened);
        }
        if let Err(close_reason) = outcome {
            self.on_closed(index, &close_reason);
        }
    }

    /// Records a closed connection and schedules the reconnection.
    fn on_closed(&mut self, index: usize, close_reason: &CloseReason) {
        let client = &mut self.clients[index];
        let was_live = client.stage == Stage::Live;
        client.close();
        if was_live {
            client.members.clear(&mut self.shared.membership);
        }
        let connections = &mut self.connections;
        if was_live {
            connections.live -= 1;
            connections.closed += 1;
            connections.first_closed.get_or_insert_with(now);
            *connections.close_reasons.entry(close_reason.name()).or_default() += 1;
            match self.after_close {
                AfterClose::Fault => {
                    connections
                        .faults
                        .add(1, || format!("a subscribed client was closed: {close_reason:?}"));
                    return;
                }
                AfterClose::StayClosed => return,
                AfterClose::Reconnect => {}
            }
        } else {
            connections.connecting -= 1;
            connections.rejected += 1;
        }
        match reconnect_delay(close_reason, was_live) {
            Some(wait) => self.reconnects.push(Reverse((now() + wait, index))),
            None => {
                connections.rejected_permanently += 1;
                connections
                    .faults
                    .add(1, || format!("a client was refused for good: {close_reason:?}"));
            }
        }
    }

    fn reconnect_due(&mut self) -> Result<()> {
        while let Some(Reverse((at, index))) = self.reconnects.peek().copied() {
            if at > now() {
                break;
            }
            self.reconnects.pop();
            self.open(index)?;
        }
        Ok(())
    }

    /// Resets the connections of all subscribed clients, as a failing network does; each client reconnects after its
    /// delay.
    pub(crate) fn cut_all(&mut self) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if client.stage == Stage::Live {
                client.close();
                self.connections.live -= 1;
                if let Some(wait) = reconnect_delay(&CloseReason::ConnectionLost, true) {
                    self.reconnects.push(Reverse((now() + wait, index)));
                }
            }
        }
    }

    /// Fails unless all clients are subscribed.
    pub(crate) fn check_all_live(&self) -> Result<()> {
        let (live, clients) = (self.connections.live, self.clients.len());
        let why = self.connections.faults.first.as_deref().unwrap_or("no answer");
        ensure!(live == clients, "only {live} of {clients} clients could subscribe: {why}");
        Ok(())
    }
}
