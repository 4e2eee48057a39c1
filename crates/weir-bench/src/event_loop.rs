//! One thread's connections on one epoll instance: reads, writes, timeouts. It is independent of the protocol.
//!
//! Hand-written because the client shares the machine with the server it measures: per operation it costs one read,
//! one write and a share of one `epoll_wait`, and allocates nothing. It always ends: a connection without a reply for
//! `operation_timeout` is an error, and a run stops and reports it when no operation completes for `stall_timeout`.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use crate::clock::now;

/// Interval at which timeouts are checked.
const TICK: Duration = Duration::from_millis(100);
/// Buffer of one read; grows only for a larger message.
const READ_BYTES: usize = 64 * 1024;
/// Most events per call of `epoll_wait`.
const EVENTS_MAX: usize = 256;

/// One connection's side of a protocol: a state machine without any IO.
pub(crate) trait Exchange {
    /// The counters of a thread. All its connections share one, because histograms are large.
    type Tally;

    /// Appends the commands that may be sent now. Called at the start and after every received chunk.
    fn append_commands(&mut self, now: Instant, out: &mut Vec<u8>);
    /// Processes the complete messages at the front of `input` and appends the commands that they require to `out`.
    /// Returns how many bytes it consumed.
    fn receive(
        &mut self,
        now: Instant,
        input: &[u8],
        out: &mut Vec<u8>,
        tally: &mut Self::Tally,
    ) -> Result<usize, LoadError>;
    /// Called about every 100 ms, for periodic commands (heartbeats).
    fn tick(&mut self, now: Instant, out: &mut Vec<u8>);
    /// Returns when the oldest message without a reply was sent.
    fn oldest_unanswered(&self) -> Option<Instant>;
    /// Returns whether nothing is left to send and no reply is missing.
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

/// Progress of a phase, shared by its threads.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    completed: AtomicU64,
    failed: AtomicBool,
    stalled: AtomicBool,
}

impl Progress {
    /// Adds completed operations of any connection.
    pub(crate) fn add(&self, operations: u64) {
        self.completed.fetch_add(operations, Ordering::Relaxed);
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    /// Returns whether the phase was stopped because nothing completed any more.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) operation_timeout: Duration,
    pub(crate) stall_timeout: Duration,
}

/// Runs `connections` until all are done, one fails or the phase stalls. Returns when the last reply arrived. Closes
/// the connections.
pub(crate) fn run<E: Exchange>(
    connections: Vec<(TcpStream, E)>,
    progress: &Progress,
    timeouts: Timeouts,
    tally: &mut E::Tally,
) -> Result<Instant, LoadError> {
    let outcome = EventLoop::new(connections, progress, timeouts).and_then(|run| run.run(tally));
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
    /// Bytes of `input` that contain data.
    filled: usize,
    is_write_blocked: bool,
    done: bool,
}

struct EventLoop<'a, E> {
    epoll: OwnedFd,
    connections: Vec<Connection<E>>,
    open: usize,
    progress: &'a Progress,
    timeouts: Timeouts,
    last_answer: Instant,
    last_completed: (u64, Instant),
}

impl<'a, E: Exchange> EventLoop<'a, E> {
    fn new(
        connections: Vec<(TcpStream, E)>,
        progress: &'a Progress,
        timeouts: Timeouts,
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
            timeouts,
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
                self.on_event(usize::try_from(data.u64()).unwrap_or(usize::MAX), flags, tally)?;
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

    fn on_event(
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
            connection.process_input(received_at, tally)?;
            self.last_answer = received_at;
        }
        self.send(index)
    }

    fn send(&mut self, index: usize) -> Result<(), LoadError> {
        let connection = &mut self.connections[index];
        connection.exchange.append_commands(now(), &mut connection.out);
        let is_blocked = !connection.write()?;
        if is_blocked != connection.is_write_blocked {
            connection.is_write_blocked = is_blocked;
            let flags = if is_blocked { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
            let data = EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, &connection.stream, data, flags).map_err(io::Error::from)?;
        }
        if !connection.done && !is_blocked && connection.exchange.is_done() {
            connection.done = true;
            self.open -= 1;
        }
        Ok(())
    }

    /// Sends heartbeats and checks the two timeouts.
    fn tick(&mut self) -> Result<(), LoadError> {
        let at = now();
        if self.progress.failed.load(Ordering::Relaxed) {
            return Err(LoadError::Abandoned);
        }
        let completed = self.progress.completed();
        if completed != self.last_completed.0 {
            self.last_completed = (completed, at);
        } else if at - self.last_completed.1 > self.timeouts.stall_timeout {
            self.progress.stalled.store(true, Ordering::Relaxed);
            return Ok(());
        }
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if connection.done {
                continue;
            }
            let sent_at = connection.exchange.oldest_unanswered();
            if sent_at.is_some_and(|sent_at| at - sent_at > self.timeouts.operation_timeout) {
                return Err(LoadError::NoAnswer(self.timeouts.operation_timeout));
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
            is_write_blocked: false,
            done: false,
        }
    }

    /// Reads once. False at the end of the stream; a spurious wake-up is true with nothing new.
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
            Err(error) if would_block(&error) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn process_input(&mut self, at: Instant, tally: &mut E::Tally) -> Result<(), LoadError> {
        let input = &self.input[..self.filled];
        let consumed = self.exchange.receive(at, input, &mut self.out, tally)?;
        self.input.copy_within(consumed..self.filled, 0);
        self.filled -= consumed;
        Ok(())
    }

    /// Writes the buffered bytes. Returns false if the socket's buffer has no room for all of them.
    fn write(&mut self) -> Result<bool, LoadError> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(LoadError::Closed),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if would_block(&error) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
