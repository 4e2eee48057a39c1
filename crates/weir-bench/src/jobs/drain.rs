//! A connection that drains: FETCH, then ACK of the received job, with up to `in_flight` jobs at a time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::ledger::{Delivery, Ledger, Numbers};
use super::payload::{JobTemplate, jid_of};
use super::push::describe;
use super::reply::{self, Reply};
use super::tallies::JobTallies;
use crate::event_loop::{Exchange, LoadError, Progress};
use crate::tally::Faults;

/// State that all draining connections of a phase share.
#[derive(Debug)]
pub(crate) struct DrainPlan<'run> {
    pub(crate) template: &'run JobTemplate,
    /// What FETCH and FETCHB ask for: queues in their order, with spaces between them.
    pub(crate) queues: &'run str,
    /// One number per job to drain, so that a FETCH is only sent while jobs are left.
    pub(crate) fetches: &'run Numbers,
    pub(crate) ledger: &'run Ledger,
    pub(crate) progress: &'run Progress,
    pub(crate) in_flight: usize,
    /// Jobs per FETCHB; `None`: FETCH.
    pub(crate) batch: Option<u64>,
}

impl DrainPlan<'_> {
    /// Checks a received job and marks it as delivered. Returns its jid.
    pub(super) fn receive<'j>(
        &self,
        reply: &Reply<'_>,
        job: &'j [u8],
        faults: &mut Faults,
    ) -> Option<&'j [u8]> {
        let number = self.template.number_of(job);
        let delivery = number.map_or(Delivery::Unknown, |n| self.ledger.mark_delivered(n));
        if delivery != Delivery::First {
            faults.add(1, || format!("{delivery:?} delivery: {}", describe(reply)));
        }
        if job.len() < self.template.bytes() {
            faults.add(1, || format!("shorter than it was pushed: {}", describe(reply)));
        }
        jid_of(job)
    }
}

/// Sends a worker's heartbeat (a server forgets a worker after 60 s without a BEAT).
#[derive(Debug)]
pub(crate) struct Heartbeat {
    pub(crate) wid: String,
    pub(crate) every: Duration,
    pub(crate) next: Instant,
}

impl Heartbeat {
    /// Appends a BEAT if it is due. Returns whether it was.
    pub(super) fn send_if_due(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = now + self.every;
            out.extend_from_slice(format!("BEAT {{\"wid\":\"{}\"}}\r\n", self.wid).as_bytes());
        }
        is_due
    }
}

#[derive(Debug)]
pub(crate) struct Drainer<'run> {
    plan: &'run DrainPlan<'run>,
    unanswered: VecDeque<Command>,
    /// Jobs between their FETCH and the reply to their ACK.
    jobs_in_flight: usize,
    heartbeat: Option<Heartbeat>,
}

#[derive(Debug)]
struct Command {
    sent_at: Instant,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Fetch,
    Ack { fetch_sent_at: Instant },
    Beat,
}

impl<'run> Drainer<'run> {
    pub(crate) fn new(plan: &'run DrainPlan<'run>, heartbeat: Option<Heartbeat>) -> Self {
        let unanswered = VecDeque::with_capacity(plan.in_flight + 1);
        Self { plan, unanswered, jobs_in_flight: 0, heartbeat }
    }

    fn send(&mut self, now: Instant, kind: Kind) {
        self.unanswered.push_back(Command { sent_at: now, kind });
    }

    fn send_fetch(&mut self, now: Instant, out: &mut Vec<u8>) {
        out.extend_from_slice(b"FETCH ");
        out.extend_from_slice(self.plan.queues.as_bytes());
        out.extend_from_slice(b"\r\n");
        self.send(now, Kind::Fetch);
    }

    fn send_ack(&mut self, now: Instant, jid: &[u8], fetch_sent_at: Instant, out: &mut Vec<u8>) {
        out.extend_from_slice(b"ACK {\"jid\":\"");
        out.extend_from_slice(jid);
        out.extend_from_slice(b"\"}\r\n");
        self.send(now, Kind::Ack { fetch_sent_at });
    }

    fn on_fetched(
        &mut self,
        now: Instant,
        sent_at: Instant,
        reply: &Reply<'_>,
        out: &mut Vec<u8>,
        tallies: &mut JobTallies,
    ) {
        let faults = &mut tallies.drained.faults;
        match reply {
            Reply::Bulk(job) => match self.plan.receive(reply, job, faults) {
                Some(jid) => self.send_ack(now, jid, sent_at, out),
                None => self.jobs_in_flight -= 1,
            },
            // The queue is empty for now; fetch again.
            Reply::Null => self.send_fetch(now, out),
            Reply::Error(_) | Reply::Status(_) | Reply::Array(_) => {
                faults.add(1, || format!("FETCH: {}", describe(reply)));
                self.jobs_in_flight -= 1;
            }
        }
    }

    fn on_acked(
        &mut self,
        now: Instant,
        fetch_sent_at: Instant,
        reply: &Reply<'_>,
        tallies: &mut JobTallies,
    ) {
        self.jobs_in_flight -= 1;
        self.plan.progress.add(1);
        if *reply == Reply::Status(b"OK") {
            tallies.drained.operations += 1;
            tallies.drained.latencies.record(now - fetch_sent_at);
        } else {
            tallies.drained.faults.add(1, || format!("ACK: {}", describe(reply)));
        }
    }
}

impl Exchange for Drainer<'_> {
    type Tally = JobTallies;

    fn append_commands(&mut self, now: Instant, out: &mut Vec<u8>) {
        while self.jobs_in_flight < self.plan.in_flight && !self.plan.fetches.take(1).is_empty() {
            self.jobs_in_flight += 1;
            self.send_fetch(now, out);
        }
    }

    fn receive(
        &mut self,
        now: Instant,
        input: &[u8],
        out: &mut Vec<u8>,
        tallies: &mut JobTallies,
    ) -> Result<usize, LoadError> {
        let mut consumed = 0;
        while let Some((reply, length)) = reply::parse(&input[consumed..])? {
            let command = self.unanswered.pop_front();
            let command = command.ok_or_else(|| LoadError::Protocol(describe(&reply)))?;
            match command.kind {
                Kind::Fetch => self.on_fetched(now, command.sent_at, &reply, out, tallies),
                Kind::Ack { fetch_sent_at } => self.on_acked(now, fetch_sent_at, &reply, tallies),
                Kind::Beat if reply == Reply::Status(b"OK") => {}
                Kind::Beat => {
                    tallies.drained.faults.add(1, || format!("BEAT: {}", describe(&reply)));
                }
            }
            consumed += length;
        }
        Ok(consumed)
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<u8>) {
        let due = self.heartbeat.as_mut().is_some_and(|heartbeat| heartbeat.send_if_due(now, out));
        if due {
            self.send(now, Kind::Beat);
        }
    }

    fn oldest_unanswered(&self) -> Option<Instant> {
        self.unanswered.front().map(|command| command.sent_at)
    }

    fn is_done(&self) -> bool {
        self.unanswered.is_empty() && self.jobs_in_flight == 0 && self.plan.fetches.is_exhausted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    /// Drains `jobs` jobs, answering each chunk of `replies` in turn; returns what was sent and counted.
    fn talk(jobs: u64, in_flight: usize, replies: &[&[u8]]) -> (String, JobTallies, u64) {
        let template = JobTemplate::new(1, "q", None, 120).expect("large enough");
        let (fetches, ledger) = (Numbers::new(jobs), Ledger::new(jobs));
        let progress = Progress::default();
        let (template, progress) = (&template, &progress);
        let plan = DrainPlan {
            template,
            queues: "q",
            fetches: &fetches,
            ledger: &ledger,
            progress,
            in_flight,
            batch: None,
        };
        let mut drainer = Drainer::new(&plan, None);
        let (mut out, mut tallies) = (Vec::new(), JobTallies::new());
        for chunk in replies {
            drainer.append_commands(now(), &mut out);
            let consumed = drainer.receive(now(), chunk, &mut out, &mut tallies);
            assert_eq!(consumed.expect("valid replies"), chunk.len());
        }
        assert!(drainer.is_done(), "{drainer:?}");
        (String::from_utf8(out).expect("text"), tallies, ledger.delivered())
    }

    fn job_0() -> Vec<u8> {
        let mut reply = b"$120\r\n".to_vec();
        JobTemplate::new(1, "q", None, 120).expect("large enough").append(0, &mut reply);
        reply.extend_from_slice(b"\r\n");
        reply
    }

    #[test]
    fn empty_reply_is_fetched_again_and_the_job_acknowledged_once() {
        let (sent, tallies, delivered) = talk(1, 1, &[b"$-1\r\n", &job_0(), b"+OK\r\n"]);
        let ack = "ACK {\"jid\":\"00000001-000000000000\"}\r\n";
        assert_eq!(sent, format!("FETCH q\r\nFETCH q\r\n{ack}"));
        assert_eq!((tallies.drained.operations, tallies.errors(), delivered), (1, 0, 1));
    }

    #[test]
    fn repeated_delivery_is_an_error() {
        let both = [job_0(), job_0()].concat();
        let (_, tallies, delivered) = talk(2, 2, &[&both, b"+OK\r\n+OK\r\n"]);
        assert_eq!((tallies.drained.operations, tallies.errors(), delivered), (2, 1, 1));
        assert!(tallies.first_error().is_some_and(|text| text.starts_with("Repeated delivery")));
    }

    #[test]
    fn truncated_job_is_an_error() {
        let cut = b"$31\r\n{\"jid\":\"00000001-000000000000\"}\r\n";
        let (_, tallies, delivered) = talk(1, 1, &[cut, b"+OK\r\n"]);
        assert_eq!((tallies.errors(), delivered), (1, 1));
    }

    #[test]
    fn rejected_fetch_is_not_repeated() {
        let (_, tallies, delivered) = talk(1, 1, &[b"-ERR no\r\n"]);
        assert_eq!((tallies.errors(), delivered), (1, 0));
    }
}
