//! A connection that pushes: one PUSH per job, or PUSHB with many, with up to `in_flight` commands at a time.

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
pub(crate) enum PushMode {
    Single,
    /// PUSHB with at most this many jobs.
    Batch(u64),
}

#[derive(Debug)]
pub(crate) struct Pusher<'run> {
    pub(crate) template: &'run JobTemplate,
    pub(crate) numbers: &'run Numbers,
    pub(crate) progress: &'run Progress,
    pub(crate) mode: PushMode,
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
        mode: PushMode,
        in_flight: usize,
    ) -> Self {
        let unanswered = VecDeque::with_capacity(in_flight);
        Self { template, numbers, progress, mode, in_flight, unanswered }
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

    fn on_reply(&mut self, at: Instant, rejected: u64, tallies: &mut JobTallies) {
        let Some(command) = self.unanswered.pop_front() else {
            return;
        };
        let accepted = command.jobs.saturating_sub(rejected);
        tallies.pushed.operations += accepted;
        tallies.pushed.latencies.record(at - command.sent_at);
        self.progress.add(command.jobs);
    }
}

impl Exchange for Pusher<'_> {
    type Tally = JobTallies;

    fn append_commands(&mut self, now: Instant, out: &mut Vec<u8>) {
        while self.unanswered.len() < self.in_flight {
            let count = match self.mode {
                PushMode::Single => 1,
                PushMode::Batch(jobs) => jobs,
            };
            let numbers = self.numbers.take(count);
            if numbers.is_empty() {
                return;
            }
            let jobs = numbers.end - numbers.start;
            match self.mode {
                PushMode::Single => self.append_push(numbers.start, out),
                PushMode::Batch(_) => self.append_batch(numbers, out),
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
            let rejected = count_rejected(&reply, self.mode, jobs);
            let faults = &mut tallies.pushed.faults;
            faults.add(rejected, || format!("push refused: {}", describe(&reply)));
            self.on_reply(now, rejected, tallies);
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

/// Returns how many of a command's `jobs` were rejected.
fn count_rejected(reply: &Reply<'_>, mode: PushMode, jobs: u64) -> u64 {
    match (reply, mode) {
        (Reply::Status(b"OK"), PushMode::Single) => 0,
        (reply, PushMode::Batch(_)) => count_rejected_in_batch(reply, jobs),
        _ => jobs,
    }
}

/// Returns how many of a batch's `jobs` were rejected, from its reply `{jid: error}`.
pub(super) fn count_rejected_in_batch(reply: &Reply<'_>, jobs: u64) -> u64 {
    match reply {
        Reply::Bulk(b"{}") => 0,
        Reply::Bulk(errors) => {
            let errors = serde_json::from_slice::<Map<String, Value>>(errors);
            errors.map_or(jobs, |errors| (errors.len() as u64).min(jobs))
        }
        _ => jobs,
    }
}

/// Returns the beginning of a reply, for error messages.
pub(crate) fn describe(reply: &Reply<'_>) -> String {
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

    fn talk(mode: PushMode, jobs: u64, replies: &[u8]) -> (String, JobTallies) {
        let template = JobTemplate::new(1, "q", None, 120).expect("large enough");
        let (numbers, progress) = (Numbers::new(jobs), Progress::default());
        let mut pusher = Pusher::new(&template, &numbers, &progress, mode, 4);
        let (mut out, mut tallies) = (Vec::new(), JobTallies::new());
        pusher.append_commands(now(), &mut out);
        let consumed = pusher.receive(now(), replies, &mut Vec::new(), &mut tallies);
        assert_eq!(consumed.expect("valid replies"), replies.len());
        assert!(pusher.is_done());
        (String::from_utf8(out).expect("text"), tallies)
    }

    #[test]
    fn single_pushes_are_pipelined_and_errors_are_counted() {
        let (sent, tallies) = talk(PushMode::Single, 3, b"+OK\r\n-ERR no room\r\n+OK\r\n");
        assert_eq!(sent.matches("PUSH {").count(), 3);
        assert_eq!((tallies.pushed.operations, tallies.pushed.faults.count), (2, 1));
        assert_eq!(tallies.first_error(), Some("push refused: -ERR no room"));
    }

    #[test]
    fn batches_push_all_jobs_and_count_rejected_ones() {
        let (sent, tallies) = talk(PushMode::Batch(4), 6, b"$2\r\n{}\r\n$10\r\n{\"a\":\"no\"}\r\n");
        assert_eq!((sent.matches("PUSHB [").count(), sent.matches("\"jid\"").count()), (2, 6));
        assert_eq!((tallies.pushed.operations, tallies.pushed.faults.count), (5, 1));
    }
}
