//! The thread that publishes: connections, an epoll instance and a clock of its own.
//!
//! The thread of the clients decides what is published and when, and is busy reading most of the time. If it sent
//! the requests too, the measured time of a publish would be the client's own queue. So it hands orders over, and
//! this thread signs them, sends them and reads the answers; it stamps both moments itself. It asks for a high
//! priority, because on a machine with few cores it competes with the readers for one; [`PublishingThread::nice`] says
//! what it got.
//!
//! What it did comes back as reports, in the order in which it happened. The sending of an event is reported before
//! its first byte leaves, so whoever hears an event finds the report.

mod work;

use std::net::SocketAddrV4;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::process::{getpriority_process, setpriority_process};

use self::work::Work;
use super::payload::EventData;
use super::publisher::Published;
use super::speech::Speech;
use super::wake::Wake;

/// Publishing connections, and so publishes under way, that a run has at most.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Each order is reported twice.
const REPORTS_MAX: usize = 2 * CONNECTIONS_MAX;
/// The highest priority there is; without the right to it the thread keeps the priority of all others.
const NICE: i32 = -20;

/// What it takes to publish.
#[derive(Debug, Clone)]
pub(crate) struct Press {
    pub(crate) to: SocketAddrV4,
    pub(crate) speech: Speech,
    pub(crate) data: EventData,
    pub(crate) channel_names: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Order {
    number: u32,
    channel: usize,
}

/// What became of an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The request is about to leave.
    Sent { number: u32, at: Instant },
    /// The answer is there, or will never be.
    Ended { published: Published, at: Instant },
}

/// The other threads' end of it.
#[derive(Debug)]
pub(crate) struct PublishingThread {
    /// `None` once no more will come.
    orders: Option<SyncSender<Order>>,
    wake: Wake,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<Result<()>>>,
    under_way: usize,
    nice: i32,
}

impl PublishingThread {
    /// With so many connections open; `reader` is woken by every answer.
    pub(crate) fn start(press: Press, connections: usize, reader: Wake) -> Result<Self> {
        let (orders, incoming) = mpsc::sync_channel(CONNECTIONS_MAX);
        let (outgoing, reports) = mpsc::sync_channel(REPORTS_MAX);
        let (ready, is_ready) = mpsc::sync_channel(1);
        let wake = Wake::new()?;
        let mut work = Work::new(press, incoming, outgoing, reader)?;
        work.open_connections(connections.min(CONNECTIONS_MAX), &wake)?;
        let body = move || {
            // The thread's own priority: it alone may have it. The receiver waits below.
            let _ = ready.send(raise_priority());
            work.run()
        };
        let thread = std::thread::Builder::new().name("publisher".to_owned()).spawn(body);
        let thread = thread.context("starting the publishing thread")?;
        let nice = is_ready.recv().context("the publishing thread did not start")?;
        Ok(Self { orders: Some(orders), wake, reports, thread: Some(thread), under_way: 0, nice })
    }

    /// The nice value that the thread has: -20 if it got the priority it wants.
    pub(crate) fn nice(&self) -> i32 {
        self.nice
    }

    /// Orders without an answer yet.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    pub(crate) fn has_room(&self) -> bool {
        self.under_way < CONNECTIONS_MAX
    }

    /// Orders event `number`; there must be room.
    pub(crate) fn publish(&mut self, number: u32, channel: usize) {
        self.under_way += 1;
        if let Some(orders) = &self.orders {
            // If the thread has ended, `check` says why.
            let _ = orders.send(Order { number, channel });
            self.wake.now();
        }
    }

    pub(crate) fn next_report(&mut self) -> Option<Report> {
        let report = self.reports.try_recv().ok()?;
        self.under_way -= usize::from(matches!(report, Report::Ended { .. }));
        Some(report)
    }

    /// Fails if the thread has ended, with its reason.
    pub(crate) fn check(&mut self) -> Result<()> {
        if !self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Ok(());
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => Err(error).context("the publishing thread"),
            _ => bail!("the publishing thread ended before its time"),
        }
    }
}

impl Drop for PublishingThread {
    fn drop(&mut self) {
        self.orders = None;
        self.wake.now();
        if let Some(thread) = self.thread.take() {
            // Whatever it has to say comes too late.
            let _ = thread.join();
        }
    }
}

/// What it got.
fn raise_priority() -> i32 {
    // On Linux a nice value is a thread's. Not everybody may raise it; the figure below says so.
    let _ = setpriority_process(None, NICE);
    getpriority_process(None).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};

    use super::*;
    use crate::clock::now;
    use crate::realtime::target::{Protocol, Target};

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

    fn start(address: SocketAddr, connections: usize) -> Result<PublishingThread> {
        let target = Target::of(&format!("ws://{address}"), Protocol::Pusher);
        let press = Press {
            to: target.url.address,
            speech: Speech::new(&target),
            data: EventData::new(7, 64).expect("large enough"),
            channel_names: vec!["channel".to_owned()],
        };
        PublishingThread::start(press, connections, Wake::new()?)
    }

    fn next(publishing: &mut PublishingThread) -> Report {
        let report = publishing.reports.recv().expect("the thread goes on");
        publishing.under_way -= usize::from(matches!(report, Report::Ended { .. }));
        report
    }

    /// Accepts a connection, reads one request on it (they fit into one packet), answers if it is to.
    fn serve_one(listener: &TcpListener, answers: bool) -> std::net::TcpStream {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut request = [0; 4096];
        assert!(stream.read(&mut request).expect("a request") > 0);
        if answers {
            stream.write_all(ANSWER).expect("the thread reads");
        }
        stream
    }

    #[test]
    fn an_order_is_sent_answered_and_stamped_while_nobody_looks() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let mut publishing = start(listener.local_addr().expect("bound"), 1).expect("it starts");
        let before = now();
        publishing.publish(0, 0);
        let stream = serve_one(&listener, true);
        let Report::Sent { number: 0, at: sent } = next(&mut publishing) else {
            panic!("sent first");
        };
        assert_eq!(publishing.under_way(), 1);
        let Report::Ended { published, at: answered } = next(&mut publishing) else {
            panic!("answered then");
        };
        assert_eq!((published, publishing.under_way()), (Published::Accepted(0), 0));
        assert!(before <= sent && sent <= answered && answered <= now());
        drop(stream);
    }

    #[test]
    fn a_connection_that_breaks_is_replaced_and_its_publish_is_unknown() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let mut publishing = start(listener.local_addr().expect("bound"), 1).expect("it starts");
        publishing.publish(0, 0);
        drop(serve_one(&listener, false));
        assert!(matches!(next(&mut publishing), Report::Sent { number: 0, .. }));
        let report = next(&mut publishing);
        let Report::Ended { published, .. } = report else { panic!("{report:?}") };
        assert_eq!(published, Published::Unknown(0));
        publishing.publish(1, 0);
        let stream = serve_one(&listener, true);
        assert!(matches!(next(&mut publishing), Report::Sent { number: 1, .. }));
        let report = next(&mut publishing);
        let Report::Ended { published, .. } = report else { panic!("{report:?}") };
        assert_eq!(published, Published::Accepted(1));
        drop(stream);
    }

    #[test]
    fn orders_wait_for_a_server_that_comes_back() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mut publishing = start(address, 0).expect("it starts");
        drop(listener);
        publishing.publish(0, 0);
        assert!(publishing.next_report().is_none() && publishing.check().is_ok());
        let listener = TcpListener::bind(address).expect("the same port");
        let stream = serve_one(&listener, true);
        assert!(matches!(next(&mut publishing), Report::Sent { number: 0, .. }));
        assert!(matches!(next(&mut publishing), Report::Ended { .. }));
        drop(stream);
    }

    #[test]
    fn a_server_that_is_not_there_at_the_start_is_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let error = start(address, 1).expect_err("nobody listens");
        assert!(format!("{error:#}").contains("connecting to publish"), "{error:#}");
    }
}
