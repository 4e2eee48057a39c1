//! The thread that publishes: connections, an epoll instance and a clock of its own.
//!
//! The clients' thread decides what is published and when, and is busy reading most of the time. If it sent the
//! requests too, the measured time of a publish would be the client's own queue. So it passes requests to this
//! thread, which signs and sends them, reads the responses and takes both times. It requests a high priority, because
//! on a machine with few cores it competes with the readers for one; [`PublishingThread::nice`] returns the one it
//! got.
//!
//! It reports what it did, in order. The sending of an event is reported before its first byte is sent, so the report
//! precedes every delivery.

mod worker;

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::process::{getpriority_process, setpriority_process};

use self::worker::Worker;
use super::codec::ProtocolCodec;
use super::payload::EventData;
use super::publisher::Published;
use super::target::ServerUrl;
use super::waker::Waker;

/// Most publishing connections, and so most publishes in flight.
pub(crate) const CONNECTIONS_MAX: usize = 64;
/// Each request is reported twice.
const REPORTS_MAX: usize = 2 * CONNECTIONS_MAX;
/// The highest priority. Without the permission the thread keeps its default priority.
const NICE: i32 = -20;

/// What the thread needs to publish events.
#[derive(Debug, Clone)]
pub(crate) struct PublishContext {
    pub(crate) to: ServerUrl,
    pub(crate) codec: ProtocolCodec,
    pub(crate) data: EventData,
    pub(crate) channel_names: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct PublishRequest {
    number: u32,
    channel: usize,
}

/// Progress of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The request is about to be sent.
    Sent { number: u32, at: Instant },
    /// The response has arrived, or the connection broke.
    Ended { published: Published, at: Instant },
}

/// The other threads' handle.
#[derive(Debug)]
pub(crate) struct PublishingThread {
    /// `None` once the thread should stop.
    requests: Option<SyncSender<PublishRequest>>,
    waker: Waker,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<Result<()>>>,
    in_flight: usize,
    nice: i32,
}

impl PublishingThread {
    /// Starts the thread with open connections. Every response wakes `client_waker`.
    pub(crate) fn start(
        context: PublishContext,
        connections: usize,
        client_waker: Waker,
    ) -> Result<Self> {
        let (requests, incoming) = mpsc::sync_channel(CONNECTIONS_MAX);
        let (outgoing, reports) = mpsc::sync_channel(REPORTS_MAX);
        let (ready, is_ready) = mpsc::sync_channel(1);
        let waker = Waker::new()?;
        let mut worker = Worker::new(context, incoming, outgoing, client_waker)?;
        worker.open_connections(connections.min(CONNECTIONS_MAX), &waker)?;
        let body = move || {
            // Only this thread gets the priority. The receiver waits below.
            let _ = ready.send(raise_priority());
            worker.run()
        };
        let thread = std::thread::Builder::new().name("publisher".to_owned()).spawn(body);
        let thread = thread.context("starting the publishing thread")?;
        let nice = is_ready.recv().context("the publishing thread did not start")?;
        Ok(Self {
            requests: Some(requests),
            waker,
            reports,
            thread: Some(thread),
            in_flight: 0,
            nice,
        })
    }

    /// The thread's nice value: -20 if it got the requested priority.
    pub(crate) fn nice(&self) -> i32 {
        self.nice
    }

    /// Requests without a response yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(crate) fn has_room(&self) -> bool {
        self.in_flight < CONNECTIONS_MAX
    }

    /// Requests to publish event `number`; there must be room.
    pub(crate) fn publish(&mut self, number: u32, channel: usize) {
        self.in_flight += 1;
        if let Some(requests) = &self.requests {
            // If the thread has ended, `check` says why.
            let _ = requests.send(PublishRequest { number, channel });
            self.waker.wake();
        }
    }

    pub(crate) fn next_report(&mut self) -> Option<Report> {
        let report = self.reports.try_recv().ok()?;
        self.in_flight -= usize::from(matches!(report, Report::Ended { .. }));
        Some(report)
    }

    /// Fails with the thread's error if it has ended.
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
        self.requests = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // Its outcome no longer matters.
            let _ = thread.join();
        }
    }
}

/// Requests a high priority and returns the nice value that the thread has.
fn raise_priority() -> i32 {
    // On Linux each thread has its own nice value. The call fails without the permission.
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
        let context = PublishContext {
            to: target.url.clone(),
            codec: ProtocolCodec::new(&target),
            data: EventData::new(7, 64).expect("large enough"),
            channel_names: vec!["channel".to_owned()],
        };
        PublishingThread::start(context, connections, Waker::new()?)
    }

    fn next(publishing: &mut PublishingThread) -> Report {
        let report = publishing.reports.recv().expect("the thread goes on");
        publishing.in_flight -= usize::from(matches!(report, Report::Ended { .. }));
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
    fn requests_are_sent_and_timed_in_the_background() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let mut publishing = start(listener.local_addr().expect("bound"), 1).expect("it starts");
        let before = now();
        publishing.publish(0, 0);
        let stream = serve_one(&listener, true);
        let Report::Sent { number: 0, at: sent } = next(&mut publishing) else {
            panic!("sent first");
        };
        assert_eq!(publishing.in_flight(), 1);
        let Report::Ended { published, at: answered } = next(&mut publishing) else {
            panic!("answered then");
        };
        assert_eq!((published, publishing.in_flight()), (Published::Accepted(0), 0));
        assert!(before <= sent && sent <= answered && answered <= now());
        drop(stream);
    }

    #[test]
    fn broken_connection_is_replaced_and_its_publish_is_unknown() {
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
    fn requests_wait_for_a_server_that_restarts() {
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
    fn unreachable_server_at_start_is_an_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let error = start(address, 1).expect_err("nobody listens");
        assert!(format!("{error:#}").contains("connecting to publish"), "{error:#}");
    }
}
