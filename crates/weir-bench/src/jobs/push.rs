//! A connection that pushes: one PUSH per job, or PUSHB with many, up to `in_flight` commands unanswered.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::{Map, Value};

use super::ledger::Numbers;
use super::payload::JobTemplate;
use super::reply::{self, Reply};
use super::tallies::JobTallies;
use crate::event_loop::{Exchange, LoadError, Progress};

/// How jobs are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushBy {
    One,
    /// PUSHB with at most this many jobs.
    Batch(u64),
}

#[derive(Debug)]
pub(crate) struct Pusher<'run> {
    pub(crate) template: &'run JobTemplate,
    pub(crate) numbers: &'run Numbers,
    pub(crate) progress: &'run Progress,
    pub(crate) by: PushBy,
    pub(crate) in_flight: usize,
    unanswered: VecDeque<Command>,
}

#[derive(Debug)]
struct Command {
    sent_at: Instant,
    jobs: u64,
}

impl<'run> Pusher<'run> {
    pub(crate) fn new(
        template: &'run JobTemplate,
        numbers: &'run Numbers,
        progress: &'run Progress,
        by: PushBy,
        in_flight: usize,
    ) -> Self {
        let unanswered = VecDeque::with_capacity(in_flight);
        Self { template, numbers, progress, by, in_flight, unanswered }
    }

    fn append_push(&self, number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"PUSH ");
        self.template.append(number, out);
        out.extend_from_slice(b"\r\n");
    }

    fn append_batch(&self, numbers: std::ops::Range<u64>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"PUSHB [");
        let first = numbers.start;
        for number in numbers {
            if number != first {
                out.push(b',');
            }
            self.template.append(number, out);
        }
        out.extend_from_slice(b"]\r\n");
    }

    fn answered(&mut self, at: Instant, refused: u64, tallies: &mut JobTallies) {
        let Some(command) = self.unanswered.pop_front() else {
            return;
        };
        let accepted = command.jobs.saturating_sub(refused);
        tallies.pushed.operations += accepted;
        tallies.pushed.latencies.record(at - command.sent_at);
        self.progress.add(command.jobs);
    }
}

impl Exchange for Pusher<'_> {
    type Tally = JobTallies;

    fn fill(&mut self, now: Instant, out: &mut Vec<u8>) {
        while self.unanswered.len() < self.in_flight {
            let count = match self.by {
                PushBy::One => 1,
                PushBy::Batch(jobs) => jobs,
            };
            let numbers = self.numbers.take(count);
            if numbers.is_empty() {
                return;
            }
            let jobs = numbers.end - numbers.start;
            match self.by {
                PushBy::One => self.append_push(numbers.start, out),
                PushBy::Batch(_) => self.append_batch(numbers, out),
            }
            self.unanswered.push_back(Command { sent_at: now, jobs });
        }
    }

    fn receive(
        &mut self,
        now: Instant,
        input: &[u8],
        _out: &mut Vec<u8>,
        tallies: &mut JobTallies,
    ) -> Result<usize, LoadError> {
        let mut consumed = 0;
        while let Some((reply, length)) = reply::parse(&input[consumed..])? {
            let jobs = self.unanswered.front().map(|command| command.jobs);
            let jobs =
                jobs.ok_or_else(|| LoadError::Protocol("a reply to no command".to_owned()))?;
            let refused = refused_jobs(&reply, self.by, jobs);
            let faults = &mut tallies.pushed.faults;
            faults.add(refused, || format!("push refused: {}", readable(&reply)));
            self.answered(now, refused, tallies);
            consumed += length;
        }
        Ok(consumed)
    }

    fn tick(&mut self, _now: Instant, _out: &mut Vec<u8>) {}

    fn oldest_unanswered(&self) -> Option<Instant> {
        self.unanswered.front().map(|command| command.sent_at)
    }

    fn is_done(&self) -> bool {
        self.unanswered.is_empty() && self.numbers.is_exhausted()
    }
}

/// How many of a command's `jobs` were not accepted.
fn refused_jobs(reply: &Reply<'_>, by: PushBy, jobs: u64) -> u64 {
    match (reply, by) {
        (Reply::Status(b"OK"), PushBy::One) => 0,
        (reply, PushBy::Batch(_)) => refused_in_batch(reply, jobs),
        _ => jobs,
    }
}

/// How many of a batch's `jobs` its reply, `{jid: error}`, names.
pub(super) fn refused_in_batch(reply: &Reply<'_>, jobs: u64) -> u64 {
    match reply {
        Reply::Bulk(b"{}") => 0,
        Reply::Bulk(errors) => {
            let errors = serde_json::from_slice::<Map<String, Value>>(errors);
            errors.map_or(jobs, |errors| (errors.len() as u64).min(jobs))
        }
        _ => jobs,
    }
}

/// The start of a reply for an error message.
pub(crate) fn readable(reply: &Reply<'_>) -> String {
    let (kind, text) = match reply {
        Reply::Status(text) => ("+", *text),
        Reply::Error(text) => ("-", *text),
        Reply::Bulk(text) => ("$", *text),
        Reply::Null => return "$-1".to_owned(),
        Reply::Array(count) => return format!("*{count}"),
    };
    format!("{kind}{}", String::from_utf8_lossy(&text[..text.len().min(200)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    fn talk(by: PushBy, jobs: u64, replies: &[u8]) -> (String, JobTallies) {
        let template = JobTemplate::new(1, "q", 120).expect("large enough");
        let (numbers, progress) = (Numbers::new(jobs), Progress::default());
        let mut pusher = Pusher::new(&template, &numbers, &progress, by, 4);
        let (mut out, mut tallies) = (Vec::new(), JobTallies::new());
        pusher.fill(now(), &mut out);
        let consumed = pusher.receive(now(), replies, &mut Vec::new(), &mut tallies);
        assert_eq!(consumed.expect("valid replies"), replies.len());
        assert!(pusher.is_done());
        (String::from_utf8(out).expect("text"), tallies)
    }

    #[test]
    fn single_pushes_are_pipelined_and_a_refusal_is_counted_with_its_text() {
        let (sent, tallies) = talk(PushBy::One, 3, b"+OK\r\n-ERR no room\r\n+OK\r\n");
        assert_eq!(sent.matches("PUSH {").count(), 3);
        assert_eq!((tallies.pushed.operations, tallies.pushed.faults.count), (2, 1));
        assert_eq!(tallies.first_error(), Some("push refused: -ERR no room"));
    }

    #[test]
    fn batches_carry_all_jobs_and_a_partial_refusal_counts_its_jobs() {
        let (sent, tallies) = talk(PushBy::Batch(4), 6, b"$2\r\n{}\r\n$10\r\n{\"a\":\"no\"}\r\n");
        assert_eq!((sent.matches("PUSHB [").count(), sent.matches("\"jid\"").count()), (2, 6));
        assert_eq!((tallies.pushed.operations, tallies.pushed.faults.count), (5, 1));
    }
}
