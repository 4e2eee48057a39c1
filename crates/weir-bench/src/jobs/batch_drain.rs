//! A connection that drains in batches: FETCHB, then one ACKB for the received jobs, with up to `in_flight` batches
//! at a time.

use std::collections::VecDeque;
use std::time::Instant;

use super::drain::{DrainPlan, Heartbeat};
use super::push::{count_rejected_in_batch, describe};
use super::reply::{self, Reply};
use super::tallies::JobTallies;
use crate::event_loop::{Exchange, LoadError};

#[derive(Debug)]
pub(crate) struct BatchDrainer<'run> {
    plan: &'run DrainPlan<'run>,
    /// Jobs per FETCHB.
    batch: u64,
    unanswered: VecDeque<Command>,
    /// Batches between their FETCHB and the reply to the ACKB of their last job.
    batches_in_flight: usize,
    heartbeat: Option<Heartbeat>,
    /// The jids of the array that is being read, quoted and separated by commas.
    jids: Vec<u8>,
}

#[derive(Debug)]
struct Command {
    sent_at: Instant,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Fetchb {
        batch_size: u64,
        /// The array that is being read: its jobs, and how many are still missing.
        array: Option<(u64, u64)>,
    },
    Ackb {
        jobs: u64,
        ends_batch: bool,
        fetch_sent_at: Instant,
    },
    Beat,
}

impl<'run> BatchDrainer<'run> {
    pub(crate) fn new(
        plan: &'run DrainPlan<'run>,
        batch: u64,
        heartbeat: Option<Heartbeat>,
    ) -> Self {
        let unanswered = VecDeque::with_capacity(2 * plan.in_flight + 1);
        Self { plan, batch, unanswered, batches_in_flight: 0, heartbeat, jids: Vec::new() }
    }

    fn send(&mut self, now: Instant, kind: Kind) {
        self.unanswered.push_back(Command { sent_at: now, kind });
    }

    fn send_fetchb(&mut self, now: Instant, batch_size: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(format!("FETCHB {batch_size} {}\r\n", self.plan.queues).as_bytes());
        self.send(now, Kind::Fetchb { batch_size, array: None });
    }

    /// Acknowledges a complete array, and fetches the missing jobs of the batch.
    fn finish_array(
        &mut self,
        now: Instant,
        fetch_sent_at: Instant,
        (batch_size, jobs): (u64, u64),
        out: &mut Vec<u8>,
    ) {
        self.unanswered.pop_front();
        if jobs > 0 {
            out.extend_from_slice(b"ACKB [");
            out.append(&mut self.jids);
            out.extend_from_slice(b"]\r\n");
            let ends_batch = jobs >= batch_size;
            self.send(now, Kind::Ackb { jobs, ends_batch, fetch_sent_at });
        }
        if jobs < batch_size {
            self.send_fetchb(now, batch_size - jobs, out);
        }
    }

    fn add_job(&mut self, reply: &Reply<'_>, job: &[u8], tallies: &mut JobTallies) {
        if let Some(jid) = self.plan.receive(reply, job, &mut tallies.drained.faults) {
            if !self.jids.is_empty() {
                self.jids.push(b',');
            }
            self.jids.push(b'"');
            self.jids.extend_from_slice(jid);
            self.jids.push(b'"');
        }
    }

    fn on_fetched(
        &mut self,
        now: Instant,
        reply: &Reply<'_>,
        out: &mut Vec<u8>,
        tallies: &mut JobTallies,
    ) {
        let Some(Command { sent_at, kind: Kind::Fetchb { batch_size, array } }) =
            self.unanswered.front_mut()
        else {
            return;
        };
        let (sent_at, batch_size) = (*sent_at, *batch_size);
        match (reply, *array) {
            (Reply::Array(0), None) => self.finish_array(now, sent_at, (batch_size, 0), out),
            (Reply::Array(count), None) => *array = Some((*count as u64, *count as u64)),
            (Reply::Bulk(job), Some((jobs, remaining))) => {
                *array = Some((jobs, remaining - 1));
                self.add_job(reply, job, tallies);
                if remaining == 1 {
                    self.finish_array(now, sent_at, (batch_size, jobs), out);
                }
            }
            _ => {
                tallies.drained.faults.add(batch_size, || format!("FETCHB: {}", describe(reply)));
                self.unanswered.pop_front();
                self.batches_in_flight -= 1;
            }
        }
    }

    fn on_reply(&mut self, now: Instant, kind: Kind, reply: &Reply<'_>, tallies: &mut JobTallies) {
        let drained = &mut tallies.drained;
        match kind {
            Kind::Ackb { jobs, ends_batch, fetch_sent_at } => {
                let rejected = count_rejected_in_batch(reply, jobs);
                drained.faults.add(rejected, || format!("ACKB: {}", describe(reply)));
                drained.operations += jobs - rejected;
                drained.latencies.record(now - fetch_sent_at);
                self.plan.progress.add(jobs);
                self.batches_in_flight -= usize::from(ends_batch);
            }
            Kind::Beat if *reply == Reply::Status(b"OK") => {}
            Kind::Beat | Kind::Fetchb { .. } => {
                drained.faults.add(1, || format!("BEAT: {}", describe(reply)));
            }
        }
    }
}

impl Exchange for BatchDrainer<'_> {
    type Tally = JobTallies;

    fn append_commands(&mut self, now: Instant, out: &mut Vec<u8>) {
        while self.batches_in_flight < self.plan.in_flight {
            let numbers = self.plan.fetches.take(self.batch);
            if numbers.is_empty() {
                return;
            }
            self.batches_in_flight += 1;
            self.send_fetchb(now, numbers.end - numbers.start, out);
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
            match self.unanswered.front().map(|command| command.kind) {
                None => return Err(LoadError::Protocol(describe(&reply))),
                Some(Kind::Fetchb { .. }) => self.on_fetched(now, &reply, out, tallies),
                Some(kind) => {
                    self.unanswered.pop_front();
                    self.on_reply(now, kind, &reply, tallies);
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
        self.unanswered.is_empty()
            && self.batches_in_flight == 0
            && self.plan.fetches.is_exhausted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;
    use crate::event_loop::Progress;
    use crate::jobs::ledger::{Ledger, Numbers};
    use crate::jobs::payload::JobTemplate;

    fn template() -> JobTemplate {
        JobTemplate::new(1, "q", None, 120).expect("large enough")
    }

    /// Drains 3 jobs in batches of 2, answering each chunk of `replies` in turn; returns what was sent and
    /// counted.
    fn talk(replies: &[&[u8]]) -> (String, JobTallies, u64) {
        let (template, fetches, ledger) = (template(), Numbers::new(3), Ledger::new(3));
        let progress = Progress::default();
        let plan = DrainPlan {
            template: &template,
            queues: "q",
            fetches: &fetches,
            ledger: &ledger,
            progress: &progress,
            in_flight: 1,
            batch: Some(2),
        };
        let mut drainer = BatchDrainer::new(&plan, 2, None);
        let (mut out, mut tallies) = (Vec::new(), JobTallies::new());
        for chunk in replies {
            drainer.append_commands(now(), &mut out);
            let consumed = drainer.receive(now(), chunk, &mut out, &mut tallies);
            assert_eq!(consumed.expect("valid replies"), chunk.len());
        }
        assert!(drainer.is_done(), "{drainer:?}");
        (String::from_utf8(out).expect("text"), tallies, ledger.delivered())
    }

    fn job(number: u64) -> Vec<u8> {
        let mut reply = b"$120\r\n".to_vec();
        template().append(number, &mut reply);
        reply.extend_from_slice(b"\r\n");
        reply
    }

    fn array(numbers: &[u64]) -> Vec<u8> {
        let jobs = numbers.iter().flat_map(|number| job(*number));
        format!("*{}\r\n", numbers.len()).into_bytes().into_iter().chain(jobs).collect()
    }

    #[test]
    fn each_array_is_acknowledged_and_the_rest_fetched_again() {
        let ok = b"$2\r\n{}\r\n".as_slice();
        let mut first = array(&[0, 1]);
        let rest = first.split_off(b"*2\r\n".len() + job(0).len());
        let (sent, tallies, delivered) = talk(&[&first, &rest, ok, b"*0\r\n", &array(&[2]), ok]);
        let acks = [
            "[\"00000001-000000000000\",\"00000001-000000000001\"]",
            "[\"00000001-000000000002\"]",
        ];
        let expected = format!(
            "FETCHB 2 q\r\nACKB {}\r\nFETCHB 1 q\r\nFETCHB 1 q\r\nACKB {}\r\n",
            acks[0], acks[1]
        );
        assert_eq!(sent, expected);
        assert_eq!((tallies.drained.operations, tallies.errors(), delivered), (3, 0, 3));
    }

    #[test]
    fn partial_arrays_count_as_one_batch() {
        let ok = b"$2\r\n{}\r\n".as_slice();
        let (sent, tallies, delivered) =
            talk(&[&array(&[0]), ok, &array(&[1]), ok, &array(&[2]), ok]);
        assert_eq!((sent.matches("FETCHB").count(), sent.matches("ACKB").count()), (3, 3));
        assert_eq!((tallies.drained.operations, tallies.errors(), delivered), (3, 0, 3));
    }

    #[test]
    fn unacknowledged_jobs_are_errors() {
        let rejected = b"$28\r\n{\"00000001-000000000000\":\"\"}\r\n".as_slice();
        let (_, tallies, _) = talk(&[&array(&[0, 1]), rejected, &array(&[2]), b"$2\r\n{}\r\n"]);
        assert_eq!((tallies.drained.operations, tallies.errors()), (2, 1));
    }

    #[test]
    fn server_without_fetchb_differs_from_an_empty_queue() {
        let unknown = b"-ERR unknown command FETCHB\r\n".as_slice();
        let (_, tallies, delivered) = talk(&[unknown, unknown]);
        assert_eq!((tallies.errors(), delivered), (3, 0));
        let first = tallies.first_error().unwrap_or_default();
        assert_eq!(first, "FETCHB: -ERR unknown command FETCHB");
    }
}
