//! The client: one thread, all connections on one epoll instance.
//!
//! Hand-written because it shares the machine with the server that it measures. It promises to end: whatever has no
//! answer within the timeout is an error. A connection that fails rests until the next look at the clock, so that a
//! server which refuses everything does not make it spin.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::connection::{Connection, Phase, Request};
use super::pace::Pace;
use super::tally::HttpTally;
use super::url::HttpUrl;
use super::{Extent, Load, answer};
use crate::clock::now;
use crate::socket::Moved;

/// How often timeouts are looked at, and how long a connection rests that has failed.
const TICK: Duration = Duration::from_millis(10);
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// Stands for the timer; connections are numbered from 0.
const TIMER: u64 = u64::MAX;

/// Asks what the load says until the end of its time and until everything is answered or given up.
pub(crate) fn run<L: Load>(
    url: &HttpUrl,
    load: &mut L,
    extent: &Extent,
    start: Instant,
) -> Result<HttpTally> {
    Client::new(url, load, extent, start).context("preparing the client")?.run()
}

struct Client<'a, L: Load> {
    url: &'a HttpUrl,
    load: &'a mut L,
    extent: &'a Extent,
    epoll: OwnedFd,
    /// Wakes the client for the next request of an open loop: epoll's own timeout counts in milliseconds.
    timer: OwnedFd,
    timer_is_for: Option<Instant>,
    pace: Pace,
    connections: Vec<Connection<L::Wanted>>,
    /// Connections with nothing to do; the one used last is used next.
    free: Vec<usize>,
    resting: Vec<usize>,
    /// Requests of an open loop that found no free connection.
    waiting: VecDeque<Request<L::Wanted>>,
    tally: HttpTally,
}

impl<'a, L: Load> Client<'a, L> {
    fn new(
        url: &'a HttpUrl,
        load: &'a mut L,
        extent: &'a Extent,
        start: Instant,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        // By edges: nobody reads how often it has fired.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), flags)?;
        let pace = Pace::new(extent, start);
        let end = pace.end;
        Ok(Self {
            url,
            load,
            extent,
            epoll,
            timer,
            timer_is_for: None,
            pace,
            connections: (0..extent.connections).map(|_| Connection::new()).collect(),
            free: (0..extent.connections).rev().collect(),
            resting: Vec::new(),
            waiting: VecDeque::new(),
            tally: HttpTally::new(end),
        })
    }

    fn run(mut self) -> Result<HttpTally> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut next_tick = now() + TICK;
        loop {
            let at = now();
            self.start_due(at);
            if at >= next_tick {
                self.tick(at);
                next_tick = at + TICK;
            }
            if self.is_done(at) {
                return Ok(self.tally);
            }
            self.wait(&mut events).context("waiting for answers")?;
            for event in events.drain(..) {
                let epoll::Event { data, .. } = event;
                if let Ok(index) = usize::try_from(data.u64())
                    && data.u64() != TIMER
                {
                    self.serve(index);
                }
            }
        }
    }

    fn is_done(&self, at: Instant) -> bool {
        let under_way = self.connections.len() - self.free.len() - self.resting.len();
        under_way == 0 && self.waiting.is_empty() && self.pace.is_over(at)
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        self.set_timer()?;
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn set_timer(&mut self) -> io::Result<()> {
        let due = self.pace.next_due();
        if due.is_none() || due == self.timer_is_for {
            return Ok(());
        }
        self.timer_is_for = due;
        let left = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now()));
        let it_value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            // Nothing at all would switch it off.
            tv_nsec: i64::from(left.subsec_nanos().max(1)),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Gives free connections what is due; what finds none waits, in the order in which it came.
    fn start_due(&mut self, at: Instant) {
        while !self.free.is_empty() {
            let waited = self.waiting.pop_front();
            let Some(request) = waited.or_else(|| self.take(at)) else {
                return;
            };
            if let Some(index) = self.free.pop() {
                self.connections[index].request = Some(request);
                self.begin(index);
            }
        }
        while self.pace.is_open()
            && let Some(request) = self.take(at)
        {
            self.tally.waited_for_connection += 1;
            self.waiting.push_back(request);
        }
    }

    fn take(&mut self, at: Instant) -> Option<Request<L::Wanted>> {
        let intended = self.pace.take(at)?;
        self.tally.requests += 1;
        Some(Request { intended, wanted: self.load.next() })
    }

    /// Sends the request of connection `index`, on the socket that it has or on a new one.
    fn begin(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.phase == Phase::Idle {
            if connection.ask(self.load) {
                return;
            }
            self.tally.reconnects += 1;
        }
        self.connect(index);
    }

    fn connect(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.close();
        if let Err(error) = connection.open(self.url, &self.epoll, index as u64) {
            self.fail(index, &format!("connecting: {error}"));
        }
    }

    fn serve(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        match connection.phase {
            Phase::Closed => {}
            // Nothing was asked: the server has closed it.
            Phase::Idle => connection.close(),
            Phase::Asked => self.receive(index),
            Phase::Connecting => match connection.connected(&self.epoll, index as u64) {
                Err(error) => self.fail(index, &format!("connecting: {error}")),
                Ok(()) if connection.ask(self.load) => {}
                Ok(()) => self.fail(index, "the server closed a new connection"),
            },
        }
    }

    fn receive(&mut self, index: usize) {
        let at = now();
        let connection = &mut self.connections[index];
        let is_closed = match connection.read() {
            Moved::NotNow => return,
            Moved::Bytes(_) => false,
            Moved::Gone => true,
        };
        let received = connection.received().len();
        match answer::parse(connection.received(), is_closed) {
            Ok(Some(answer)) if answer.length == received => {
                if let Some(request) = &connection.request {
                    let latency = at.saturating_duration_since(request.intended);
                    let judged = self.load.judge(&request.wanted, &answer, latency);
                    self.tally.answered(&answer, latency, at, judged);
                }
                let keep = self.extent.keep_alive && !answer.closes && !is_closed;
                connection.answered(keep);
                self.free.push(index);
                self.start_due(at);
            }
            Ok(Some(_)) => self.fail(index, "more was answered than asked"),
            Ok(None) if is_closed && connection.was_closed_while_idle() => {
                self.tally.reconnects += 1;
                self.connect(index);
            }
            Ok(None) if is_closed => self.fail(index, "the server closed a connection unanswered"),
            Ok(None) => {}
            Err(text) => self.fail(index, &text),
        }
    }

    fn fail(&mut self, index: usize, text: &str) {
        self.tally.faults.add(1, || text.to_owned());
        self.give_up(index);
    }

    fn give_up(&mut self, index: usize) {
        self.connections[index].close();
        self.connections[index].request = None;
        self.resting.push(index);
    }

    fn tick(&mut self, at: Instant) {
        self.free.append(&mut self.resting);
        let timeout = self.extent.timeout;
        let is_late = |intended: Instant| at.saturating_duration_since(intended) > timeout;
        for index in 0..self.connections.len() {
            let intended = self.connections[index].request.as_ref().map(|it| it.intended);
            if let Some(intended) = intended.filter(|intended| is_late(*intended)) {
                self.tally.timed_out(at.saturating_duration_since(intended));
                self.give_up(index);
            }
        }
        while let Some(request) = self.waiting.pop_front_if(|request| is_late(request.intended)) {
            self.tally.timed_out(at.saturating_duration_since(request.intended));
        }
    }
}
