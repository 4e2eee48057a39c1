//! What happens on the publishing thread.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use anyhow::{Context, Result};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use super::{CONNECTIONS_MAX, Order, Press, Report};
use crate::clock::{now, unix_seconds};
use crate::realtime::publisher::{Published, Publisher};
use crate::realtime::socket;
use crate::realtime::wake::Wake;

/// Marks the wake-up among what epoll reports; connections have their indices.
const WAKE: u64 = u64::MAX;
const EVENTS_MAX: usize = 64;
/// How soon a connection is tried again that could not be had.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What the thread owns.
pub(super) struct Work {
    press: Press,
    publisher: Publisher,
    epoll: OwnedFd,
    orders: Receiver<Order>,
    /// Orders that wait for a connection.
    waiting: VecDeque<Order>,
    reports: SyncSender<Report>,
    reader: Wake,
}

impl Work {
    pub(super) fn new(
        press: Press,
        orders: Receiver<Order>,
        reports: SyncSender<Report>,
        reader: Wake,
    ) -> Result<Self> {
        Ok(Self {
            press,
            publisher: Publisher::default(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            orders,
            waiting: VecDeque::with_capacity(CONNECTIONS_MAX),
            reports,
            reader,
        })
    }

    /// Before the thread starts, so that what is wrong is said at once.
    pub(super) fn open_connections(&mut self, count: usize, wake: &Wake) -> Result<()> {
        wake.watch(&self.epoll, WAKE)?;
        while self.publisher.connections() < count {
            self.open().context("connecting to publish")?;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        let (index, socket) = self.publisher.open(self.press.to)?;
        socket::watch(&self.epoll, socket, index as u64)
    }

    /// Until no more orders can come.
    pub(super) fn run(mut self) -> Result<()> {
        while self.take_orders() {
            self.send_waiting();
            let mut room = [MaybeUninit::uninit(); EVENTS_MAX];
            for event in self.wait(&mut room)? {
                let epoll::Event { data, .. } = *event;
                if let (false, Ok(index)) = (data.u64() == WAKE, usize::try_from(data.u64())) {
                    let published = self.publisher.ready(index);
                    self.report(published);
                }
            }
        }
        Ok(())
    }

    /// False when the other end is gone.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.waiting.push_back(order),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// An order waits as long as no connection can be had: the server may be about to come back.
    fn send_waiting(&mut self) {
        while let Some(order) = self.waiting.front().copied() {
            if !self.publisher.has_idle() && self.open().is_err() {
                return;
            }
            self.waiting.pop_front();
            self.send(order);
        }
    }

    fn send(&mut self, Order { number, channel }: Order) {
        let Press { speech, data, channel_names, .. } = &self.press;
        let request = speech.publish(&channel_names[channel], &data.of(number), unix_seconds());
        // A reader that is gone wants no reports.
        let _ = self.reports.send(Report::Sent { number, at: now() });
        let published = self.publisher.send(number, &request);
        self.report(published);
    }

    fn report(&self, published: Option<Published>) {
        if let Some(published) = published {
            // As above.
            let _ = self.reports.send(Report::Ended { published, at: now() });
            self.reader.now();
        }
    }

    fn wait<'a>(
        &self,
        room: &'a mut [MaybeUninit<epoll::Event>; EVENTS_MAX],
    ) -> Result<&'a [epoll::Event]> {
        let timeout = (!self.waiting.is_empty()).then_some(&RETRY);
        match epoll::wait(&self.epoll, room, timeout) {
            Ok((events, _)) => Ok(events),
            Err(rustix::io::Errno::INTR) => Ok(&[]),
            Err(error) => Err(io::Error::from(error)).context("waiting for answers"),
        }
    }
}
