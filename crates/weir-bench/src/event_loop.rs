//! One thread's connections on one epoll instance: reads, writes, timeouts. It knows nothing of a protocol.
//!
//! Hand-written because the client shares the machine with the server it measures: per operation it costs
//! one read, one write and a share of one `epoll_wait`, and allocates nothing.
//! It promises to end: a connection without an answer for `operation_timeout` is an error, and a run in
//! which nothing at all is completed for `stall_timeout` stops and says so.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use crate::clock::now;

/// How often timeouts are looked at.
const TICK: Duration = Duration::from_millis(100);
/// Room offered to one read; grows only for a message that is larger.
const READ_BYTES: usize = 64 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// What one connection says and hears: a protocol's state machine without any IO.
pub(crate) trait Exchange {
    /// What a thread counts over all its connections (one, because histograms are too big for one each).
    type Tally;

    /// Appends what may be sent now. Called at the start and after every received chunk.
    fn fill(&mut self, now: Instant, out: &mut Vec<u8>);
    /// Consumes the complete messages at the front of `input` and appends what they call for to `out`;
    /// returns how many bytes it consumed.
    fn receive(
        &mut self,
        now: Instant,
        input: &[u8],
        out: &mut Vec<u8>,
        tally: &mut Self::Tally,
    ) -> Result<usize, LoadError>;
    /// Called about every 100 ms, for what goes by the clock (heartbeats).
    fn tick(&mut self, now: Instant, out: &mut Vec<u8>);
    /// When the oldest unanswered message was sent.
    fn oldest_unanswered(&self) -> Option<Instant>;
    /// Nothing left to send and nothing unanswered.
    fn is_done(&self) -> bool;
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("the server closed a connection in the middle of the run")]
    Closed,
    #[error("no answer within {0:?} (--operation-timeout-seconds)")]
    NoAnswer(Duration),
    #[error("the server sent something that is not the protocol: {0}")]
    Protocol(String),
    #[error("another thread of this run failed")]
    Abandoned,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What all threads of one phase watch together.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    completed: AtomicU64,
    failed: AtomicBool,
    stalled: AtomicBool,
}

impl Progress {
    /// Counts completed operations of any connection.
    pub(crate) fn add(&self, operations: u64) {
        self.completed.fetch_add(operations, Ordering::Relaxed);
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    /// Whether the phase was cut short because nothing moved any more.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) operation_timeout: Duration,
    pub(crate) stall_timeout: Duration,
}

/// Runs `connections` until all are done, one fails or the phase stalls; returns when the last answer came.
/// The connections are closed then.
pub(crate) fn run<E: Exchange>(
    connections: Vec<(TcpStream, E)>,
    progress: &Progress,
    patience: Patience,
    tally: &mut E::Tally,
) -> Result<Instant, LoadError> {
    let outcome = EventLoop::new(connections, progress, patience).and_then(|run| run.run(tally));
    if outcome.is_err() {
        progress.failed.store(true, Ordering::Relaxed);
    }
    outcome
}

struct Connection<E> {
    stream: TcpStream,
    exchange: E,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// Bytes of `input` that hold data; the rest is room.
    filled: usize,
    waits_for_room: bool,
    done: bool,
}

struct EventLoop<'a, E> {
    epoll: OwnedFd,
    connections: Vec<Connection<E>>,
    open: usize,
    progress: &'a Progress,
    patience: Patience,
    last_answer: Instant,
    last_completed: (u64, Instant),
}

impl<'a, E: Exchange> EventLoop<'a, E> {
    fn new(
        connections: Vec<(TcpStream, E)>,
        progress: &'a Progress,
        patience: Patience,
    ) -> Result<Self, LoadError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let connections: Vec<_> = connections.into_iter().map(Connection::new).collect();
        for (index, connection) in connections.iter().enumerate() {
            connection.stream.set_nonblocking(true)?;
            let data = EventData::new_u64(index as u64);
            epoll::add(&epoll, &connection.stream, data, EventFlags::IN)
                .map_err(io::Error::from)?;
        }
        let open = connections.len();
        let start = now();
        let last_completed = (progress.completed(), start);
        Ok(Self {
            epoll,
            connections,
            open,
            progress,
            patience,
            last_answer: start,
            last_completed,
        })
    }

    fn run(mut self, tally: &mut E::Tally) -> Result<Instant, LoadError> {
        for index in 0..self.connections.len() {
            self.send(index)?;
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut next_tick = now() + TICK;
        while self.open > 0 && !self.progress.is_stalled() {
            self.wait(&mut events)?;
            for event in events.drain(..) {
                let epoll::Event { flags, data } = event;
                self.serve(usize::try_from(data.u64()).unwrap_or(usize::MAX), flags, tally)?;
            }
            if now() >= next_tick {
                self.tick()?;
                next_tick = now() + TICK;
            }
        }
        Ok(self.last_answer)
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<(), LoadError> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    fn serve(
        &mut self,
        index: usize,
        flags: EventFlags,
        tally: &mut E::Tally,
    ) -> Result<(), LoadError> {
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            let connection = &mut self.connections[index];
            if connection.done || !connection.read()? {
                return if connection.done { Ok(()) } else { Err(LoadError::Closed) };
            }
            let received_at = now();
            connection.deliver(received_at, tally)?;
            self.last_answer = received_at;
        }
        self.send(index)
    }

    fn send(&mut self, index: usize) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        connection.exchange.fill(now(), &mut connection.out);
        let waits = !connection.write()?;
        if waits != connection.waits_for_room {
            connection.waits_for_room = waits;
            let flags = if waits { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            let data = EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, &connection.stream, data, flags).map_err(io::Error::from)?;
        }
        if !connection.done && !waits && connection.exchange.is_done() {
            connection.done = true;
            self.open -= 1;
        }
        Ok(())
    }

    /// Heartbeats and the two timeouts.
    fn tick(&mut self) -> Result<(), LoadError> {
        let at = now();
        if self.progress.failed.load(Ordering::Relaxed) {
            return Err(LoadError::Abandoned);
        }
        let completed = self.progress.completed();
        if completed != self.last_completed.0 {
            self.last_completed = (completed, at);
        } else if at - self.last_completed.1 > self.patience.stall_timeout {
            self.progress.stalled.store(true, Ordering::Relaxed);
            return Ok(());
        }
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if connection.done {
                continue;
            }
            let sent_at = connection.exchange.oldest_unanswered();
            if sent_at.is_some_and(|sent_at| at - sent_at > self.patience.operation_timeout) {
                return Err(LoadError::NoAnswer(self.patience.operation_timeout));
            }
            connection.exchange.tick(at, &mut connection.out);
            self.send(index)?;
        }
        Ok(())
    }
}

impl<E: Exchange> Connection<E> {
    fn new((stream, exchange): (TcpStream, E)) -> Self {
        Self {
            stream,
            exchange,
            out: Vec::with_capacity(READ_BYTES),
            sent: 0,
            input: vec![0; READ_BYTES],
            filled: 0,
            waits_for_room: false,
            done: false,
        }
    }

    /// One read. False at the end of the stream; a spurious wake-up is true with nothing new.
    fn read(&mut self) -> Result<bool, LoadError> {
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.filled += count;
                Ok(true)
            }
            Err(error) if is_not_now(&error) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn deliver(&mut self, at: Instant, tally: &mut E::Tally) -> Result<(), LoadError> {
        let input = &self.input[..self.filled];
        let consumed = self.exchange.receive(at, input, &mut self.out, tally)?;
        self.input.copy_within(consumed..self.filled, 0);
        self.filled -= consumed;
        Ok(())
    }

    /// Writes what is buffered. False when the socket has no room for all of it.
    fn write(&mut self) -> Result<bool, LoadError> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(LoadError::Closed),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_not_now(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }
}

fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
