//! The client: one thread, all connections on one epoll instance.
//!
//! Hand-written because it shares the machine with the server that it measures. It always ends: a request without a
//! response within the timeout is an error. A failed connection is not used until the next tick, so that a server
//! that rejects everything does not make the client spin.

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
use super::{Load, LoadProfile, response};
use crate::clock::now;
use crate::socket::IoOutcome;

/// Interval at which timeouts are checked and failed connections become available again.
const TICK: Duration = Duration::from_millis(10);
/// Most events per call of `epoll_wait`.
const EVENTS_MAX: usize = 256;
/// epoll's number for the timer; connections are numbered from 0.
const TIMER: u64 = u64::MAX;

/// Sends the requests of `load` for the duration of `profile`, then waits until all have completed or timed out.
pub(crate) fn run<L: Load>(
    url: &HttpUrl,
    load: &mut L,
    profile: &LoadProfile,
    start: Instant,
) -> Result<HttpTally> {
    Client::new(url, load, profile, start).context("preparing the client")?.run()
}

struct Client<'a, L: Load> {
    url: &'a HttpUrl,
    load: &'a mut L,
    profile: &'a LoadProfile,
    epoll: OwnedFd,
    /// Wakes the client for the next request of an open loop: epoll's own timeout counts in milliseconds.
    timer: OwnedFd,
    timer_deadline: Option<Instant>,
    pace: Pace,
    connections: Vec<Connection<L::Item>>,
    /// Idle connections; the one used last is used next.
    idle: Vec<usize>,
    backing_off: Vec<usize>,
    /// Requests of an open loop that wait for an idle connection.
    waiting: VecDeque<Request<L::Item>>,
    tally: HttpTally,
}

impl<'a, L: Load> Client<'a, L> {
    fn new(
        url: &'a HttpUrl,
        load: &'a mut L,
        profile: &'a LoadProfile,
        start: Instant,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        // Edge-triggered, because the timer is never read.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), flags)?;
        let pace = Pace::new(profile, start);
        let end = pace.end;
        Ok(Self {
            url,
            load,
            profile,
            epoll,
            timer,
            timer_deadline: None,
            pace,
            connections: (0..profile.connections).map(|_| Connection::new()).collect(),
            idle: (0..profile.connections).rev().collect(),
            backing_off: Vec::new(),
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
                    self.on_event(index);
                }
            }
        }
    }

    fn is_done(&self, at: Instant) -> bool {
        let under_way = self.connections.len() - self.idle.len() - self.backing_off.len();
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
        if due.is_none() || due == self.timer_deadline {
            return Ok(());
        }
        self.timer_deadline = due;
        let remaining = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now()));
        let it_value = Timespec {
            tv_sec: i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX),
            // Zero would disable the timer.
            tv_nsec: i64::from(remaining.subsec_nanos().max(1)),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Starts the due requests on idle connections. The others wait, in order.
    fn start_due(&mut self, at: Instant) {
        while !self.idle.is_empty() {
            let queued = self.waiting.pop_front();
            let Some(request) = queued.or_else(|| self.next_request(at)) else {
                return;
            };
            if let Some(index) = self.idle.pop() {
                self.connections[index].request = Some(request);
                self.start_request(index);
            }
        }
        while self.pace.is_open_loop()
            && let Some(request) = self.next_request(at)
        {
            self.tally.waited_for_connection += 1;
            self.waiting.push_back(request);
        }
    }

    fn next_request(&mut self, at: Instant) -> Option<Request<L::Item>> {
        let intended = self.pace.take_due(at)?;
        self.tally.requests += 1;
        Some(Request { intended, item: self.load.next() })
    }

    /// Sends the request of connection `index`, on its open socket or on a new one.
    fn start_request(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if connection.phase == Phase::Idle {
            if connection.send_request(self.load) {
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

    fn on_event(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        match connection.phase {
            Phase::Closed => {}
            // No request is in flight: the server has closed the connection.
            Phase::Idle => connection.close(),
            Phase::AwaitingResponse => self.receive(index),
            Phase::Connecting => match connection.on_connected(&self.epoll, index as u64) {
                Err(error) => self.fail(index, &format!("connecting: {error}")),
                Ok(()) if connection.send_request(self.load) => {}
                Ok(()) => self.fail(index, "the server closed a new connection"),
            },
        }
    }

    fn receive(&mut self, index: usize) {
        let at = now();
        let connection = &mut self.connections[index];
        let is_closed = match connection.read() {
            IoOutcome::WouldBlock => return,
            IoOutcome::Bytes(_) => false,
            IoOutcome::Closed => true,
        };
        let received = connection.received().len();
        match response::parse(connection.received(), is_closed) {
            Ok(Some(response)) if response.length == received => {
                if let Some(request) = &connection.request {
                    let latency = at.saturating_duration_since(request.intended);
                    let outcome = self.load.check_response(&request.item, &response, latency);
                    self.tally.record_response(&response, latency, at, outcome);
                }
                let keep_alive =
                    self.profile.keep_alive && !response.closes_connection && !is_closed;
                connection.finish_response(keep_alive);
                self.idle.push(index);
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
        self.abandon(index);
    }

    fn abandon(&mut self, index: usize) {
        self.connections[index].close();
        self.connections[index].request = None;
        self.backing_off.push(index);
    }

    fn tick(&mut self, at: Instant) {
        self.idle.append(&mut self.backing_off);
        let timeout = self.profile.timeout;
        let is_late = |intended: Instant| at.saturating_duration_since(intended) > timeout;
        for index in 0..self.connections.len() {
            let intended = self.connections[index].request.as_ref().map(|it| it.intended);
            if let Some(intended) = intended.filter(|intended| is_late(*intended)) {
                self.tally.record_timeout(at.saturating_duration_since(intended));
                self.abandon(index);
            }
        }
        while let Some(request) = self.waiting.pop_front_if(|request| is_late(request.intended)) {
            self.tally.record_timeout(at.saturating_duration_since(request.intended));
        }
    }
}
