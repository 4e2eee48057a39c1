//! The loop of the publishing thread.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};

use anyhow::{Context, Result};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use super::{CONNECTIONS_MAX, PublishContext, PublishRequest, Report};
use crate::clock::{now, unix_seconds};
use crate::realtime::publisher::{Published, Publisher};
use crate::realtime::socket;
use crate::realtime::waker::Waker;

/// epoll's number for wake-ups; connections have their indices.
const WAKER: u64 = u64::MAX;
const EVENTS_MAX: usize = 64;
/// Delay between two attempts to connect.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// State of the thread.
pub(super) struct Worker {
    context: PublishContext,
    publisher: Publisher,
    epoll: OwnedFd,
    requests: Receiver<PublishRequest>,
    /// Orders that wait for a connection.
    waiting: VecDeque<PublishRequest>,
    reports: SyncSender<Report>,
    client_waker: Waker,
}

impl Worker {
    pub(super) fn new(
        context: PublishContext,
        requests: Receiver<PublishRequest>,
        reports: SyncSender<Report>,
        client_waker: Waker,
    ) -> Result<Self> {
        Ok(Self {
            context,
            publisher: Publisher::default(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            requests,
            waiting: VecDeque::with_capacity(CONNECTIONS_MAX),
            reports,
            client_waker,
        })
    }

    /// Opens connections before the thread starts, so that errors are reported at once.
    pub(super) fn open_connections(&mut self, count: usize, waker: &Waker) -> Result<()> {
        waker.register(&self.epoll, WAKER)?;
        while self.publisher.connections() < count {
            self.open().context("connecting to publish")?;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        let (index, socket) = self.publisher.open(&self.context.to)?;
        socket::register(&self.epoll, socket, index as u64)
    }

    /// Runs until the sender of requests is dropped.
    pub(super) fn run(mut self) -> Result<()> {
        while self.take_orders() {
            self.send_waiting();
            let mut room = [MaybeUninit::uninit(); EVENTS_MAX];
            for event in self.wait(&mut room)? {
                let epoll::Event { data, .. } = *event;
                if let (false, Ok(index)) = (data.u64() == WAKER, usize::try_from(data.u64())) {
                    let published = self.publisher.on_ready(index);
                    self.report(published);
                }
            }
        }
        Ok(())
    }

    /// Receives all pending requests. Returns false once their sender is dropped.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.requests.try_recv() {
                Ok(request) => self.waiting.push_back(request),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    /// Sends waiting requests while connections are available. The server may be restarting.
    fn send_waiting(&mut self) {
        while let Some(request) = self.waiting.front().copied() {
            if !self.publisher.has_idle() && self.open().is_err() {
                return;
            }
            self.waiting.pop_front();
            self.send(request);
        }
    }

    fn send(&mut self, PublishRequest { number, channel }: PublishRequest) {
        let PublishContext { codec, data, channel_names, .. } = &self.context;
        let request =
            codec.publish_request(&channel_names[channel], &data.of(number), unix_seconds());
        // The receiver may have ended.
        let _ = self.reports.send(Report::Sent { number, at: now() });
        let published = self.publisher.send(number, &request);
        self.report(published);
    }

    fn report(&self, published: Option<Published>) {
        if let Some(published) = published {
            // As above.
            let _ = self.reports.send(Report::Ended { published, at: now() });
            self.client_waker.wake();
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
