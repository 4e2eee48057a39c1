//! The parent's end of the control channel. It never blocks, and its queue is limited.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::message::{ParentReport, ParentRequest};
use super::{LineSplitter, REQUEST_BYTES_MAX, REQUESTS_PER_TURN_MAX, WAITING_BYTES_MAX, encode};

/// The size of a read.
const CHUNK_BYTES: usize = 4096;

/// A connected service.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    incoming: LineSplitter,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    /// The bytes of the first queued line that are written.
    written: usize,
    /// Whether reports were dropped, so that only a snapshot has the current state.
    is_behind: bool,
    is_closed: bool,
}

/// A message from the service.
#[derive(Debug)]
pub(crate) enum Incoming {
    Request(ParentRequest),
    /// Not a valid request; the text is the error.
    Malformed(String),
}

impl Link {
    pub(crate) fn new(socket: OwnedFd) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            socket,
            incoming: LineSplitter::new(REQUEST_BYTES_MAX),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            written: 0,
            is_behind: false,
            is_closed: false,
        })
    }

    /// Restores a link of an earlier program, with its partly received line and its partly sent
    /// line.
    pub(crate) fn resume(
        socket: OwnedFd,
        incoming: &[u8],
        outgoing: Vec<u8>,
    ) -> rustix::io::Result<Self> {
        let mut link = Self::new(socket)?;
        link.incoming.add(incoming);
        link.waiting_bytes = outgoing.len();
        link.waiting.extend(Some(outgoing).filter(|line| !line.is_empty()));
        Ok(link)
    }

    /// Returns the bytes of an incomplete received line.
    pub(crate) fn incoming(&self) -> &[u8] {
        self.incoming.rest()
    }

    /// Returns the rest of a partly sent line. A snapshot replaces the other queued reports.
    pub(crate) fn partly_sent(&self) -> &[u8] {
        match self.waiting.front() {
            Some(line) if self.written > 0 => &line[self.written..],
            _ => &[],
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn interest(&self) -> PollFlags {
        let reading = PollFlags::IN;
        if self.waiting.is_empty() { reading } else { reading | PollFlags::OUT }
    }

    /// Returns whether the service is gone or has sent a line beyond the limit.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Returns whether a snapshot must be sent because reports were dropped, and resets that.
    pub(crate) fn takes_fresh_start(&mut self) -> bool {
        self.waiting.is_empty() && std::mem::take(&mut self.is_behind)
    }

    /// Returns whether at least half of the queue is free, for reports that can be deferred.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting_bytes < WAITING_BYTES_MAX / 2
    }

    /// Queues `report`. If the queue is full, drops all queued reports; a snapshot replaces them.
    pub(crate) fn send(&mut self, report: &ParentReport) {
        if self.is_behind || self.is_closed {
            return;
        }
        let line = match encode(report) {
            Ok(line) => line,
            Err(error) => return tracing::error!(%error, "report not sent"),
        };
        if self.waiting_bytes + line.len() > WAITING_BYTES_MAX {
            self.fall_behind();
        } else {
            self.waiting_bytes += line.len();
            self.waiting.push_back(line);
        }
    }

    /// Drops all queued reports except a partly sent line, which must be completed.
    fn fall_behind(&mut self) {
        tracing::warn!("the service doesn't read its reports; it gets a snapshot when it does");
        self.is_behind = true;
        self.waiting.truncate(usize::from(self.written > 0));
        self.waiting_bytes = self.waiting.iter().map(Vec::len).sum();
    }

    /// Writes queued reports until the socket is full.
    pub(crate) fn flush(&mut self) {
        while let Some(line) = self.waiting.front() {
            match rustix::io::write(&self.socket, &line[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.is_closed = true;
                    return;
                }
            }
            if self.written == line.len() {
                self.waiting_bytes -= line.len();
                self.written = 0;
                self.waiting.pop_front();
            }
        }
    }

    /// Reads and returns messages of the service, up to the limit per iteration of the loop.
    pub(crate) fn receive(&mut self) -> Vec<Incoming> {
        let mut received = Vec::new();
        let mut chunk = [0; CHUNK_BYTES];
        while received.len() < REQUESTS_PER_TURN_MAX && !self.is_closed {
            match self.incoming.next_line() {
                Ok(Some(line)) => received.push(parse(&line)),
                Ok(None) => match rustix::io::read(&self.socket, &mut chunk) {
                    Ok(0) => self.is_closed = true,
                    Ok(bytes) => self.incoming.add(&chunk[..bytes]),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(_) => self.is_closed = true,
                },
                Err(error) => {
                    tracing::error!(%error, "the service is not understood; disconnected");
                    self.is_closed = true;
                }
            }
        }
        received
    }
}

fn parse(line: &[u8]) -> Incoming {
    match serde_json::from_slice(line) {
        Ok(request) => Incoming::Request(request),
        Err(error) => Incoming::Malformed(format!("not a request: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::control::{ParentCommand, WorkerPhase, WorkerReport};

    fn link() -> (Link, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        (Link::new(ours.into()).expect("a link"), theirs)
    }

    fn done(id: u64) -> ParentReport {
        ParentReport::Done { id, outcome: None }
    }

    #[test]
    fn a_slow_reader_gets_a_new_snapshot_and_never_blocks_the_parent() {
        let (mut link, mut theirs) = link();
        let mut sent = 0;
        while !link.is_behind {
            link.send(&done(sent));
            link.flush();
            assert!(link.waiting_bytes <= WAITING_BYTES_MAX);
            sent += 1;
        }
        link.send(&done(u64::MAX));
        assert!(link.waiting_bytes < 100, "everything that waited was dropped");
        theirs.set_nonblocking(true).expect("set");
        let mut text = Vec::new();
        while !link.waiting.is_empty() || link.is_behind {
            let _ = theirs.read_to_end(&mut text);
            link.flush();
            if link.takes_fresh_start() {
                link.send(&ParentReport::SnapshotEnds);
            }
        }
        let _ = theirs.read_to_end(&mut text);
        let text = String::from_utf8(text).expect("text");
        let reports: Vec<ParentReport> =
            text.lines().map(|line| serde_json::from_str(line).expect("whole lines")).collect();
        assert_eq!(reports.last(), Some(&ParentReport::SnapshotEnds));
        assert_eq!(reports[0], done(0));
        assert!(!reports.contains(&done(u64::MAX)));
    }

    #[test]
    fn valid_requests_parse_and_malformed_ones_are_rejected() {
        let (mut link, mut theirs) = link();
        let request = ParentRequest { id: 7, command: ParentCommand::Ready { generation: 3 } };
        theirs.write_all(&encode(&request).expect("encoded")).expect("written");
        theirs.write_all(b"{\"id\":1,\"command\":{\"do\":\"dance\"}}\nhalf").expect("written");
        let received = link.receive();
        assert!(matches!(&received[0], Incoming::Request(it) if *it == request), "{received:?}");
        let Incoming::Malformed(reason) = &received[1] else { panic!("{received:?}") };
        assert!(reason.starts_with("not a request: unknown variant `dance`"), "{reason}");
        assert_eq!(received.len(), 2);
        assert!(!link.is_closed());
        drop(theirs);
        assert!(link.receive().is_empty() && link.is_closed());
    }

    #[test]
    fn requests_per_iteration_are_bounded() {
        let (mut link, mut theirs) = link();
        let request = ParentRequest { id: 7, command: ParentCommand::Ready { generation: 3 } };
        let line = encode(&request).expect("encoded");
        for _ in 0..REQUESTS_PER_TURN_MAX + 1 {
            theirs.write_all(&line).expect("written");
        }
        assert_eq!(link.receive().len(), REQUESTS_PER_TURN_MAX);
        assert_eq!(link.receive().len(), 1);
    }

    #[test]
    fn an_endless_line_disconnects() {
        let (mut link, mut theirs) = link();
        let writer = std::thread::spawn(move || {
            let _ = theirs.write_all(&[b'x'; REQUEST_BYTES_MAX + CHUNK_BYTES]);
        });
        while !link.is_closed() {
            assert!(link.receive().is_empty());
        }
        drop(link);
        writer.join().expect("joined");
    }

    #[test]
    fn the_longest_report_fits_into_its_limit() {
        let last_lines = vec!["\u{1}".repeat(500); 21];
        let phase = WorkerPhase::Ended {
            status: "exited with code 1".into(),
            reason: Some("\u{1}".repeat(crate::workers::REASON_BYTES_MAX)),
            last_lines,
        };
        let report = ParentReport::Worker(WorkerReport {
            group: "x".repeat(32),
            slot: 1_000,
            generation: u64::MAX,
            pid: i32::MAX,
            address: Some(crate::control::WorkerAddress::Unix("x".repeat(107).into())),
            started_ms_ago: u64::MAX,
            phase,
        });
        assert!(encode(&report).expect("encoded").len() <= crate::control::REPORT_BYTES_MAX);
    }
}
