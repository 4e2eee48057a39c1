//! Reads ranges of lists and sorted sets in small steps, because the size of a job is known only
//! once it has been read.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::error::SidekiqError;
use crate::job::JobSummary;
use crate::limits::SampleLimits;
use crate::questions::{Question, ReadCommand, RedisReply, ReplyResult};
use crate::snapshot::RejectedCommand;

use super::SnapshotReader;

/// Where a window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowStart {
    /// At this rank, ascending.
    Rank(u64),
    /// At the last entry, descending.
    End,
}

/// A window, as far as it has been read.
#[derive(Debug)]
pub(super) struct EntryWindow {
    command: ReadCommand,
    key: String,
    start: WindowStart,
    entries_max: usize,
    /// Number of entries requested so far.
    asked: usize,
    bytes: usize,
    largest_bytes: usize,
    /// The largest job read from the same key by any window.
    largest_of_key: usize,
    ended: bool,
    /// Hashes of the entries of the previous step.
    before: Vec<u64>,
    /// Jobs in the order in which they were read. Invalid entries are left out.
    pub(super) jobs: Vec<JobSummary>,
    pub(super) refusal: Option<RejectedCommand>,
}

impl EntryWindow {
    pub(super) fn new(
        command: ReadCommand,
        key: &str,
        start: WindowStart,
        entries_max: usize,
    ) -> Self {
        Self {
            command,
            key: key.to_owned(),
            start,
            entries_max,
            asked: 0,
            bytes: 0,
            largest_bytes: 0,
            largest_of_key: 0,
            ended: false,
            before: Vec::new(),
            jobs: Vec::new(),
            refusal: None,
        }
    }

    /// Extends the window.
    pub(super) fn widen(&mut self, entries: usize) {
        self.entries_max = self.entries_max.saturating_add(entries);
    }

    /// Returns the number of entries to read next: first one, as sizes are unknown, then as many as
    /// were read so far and fit if none is larger than those: small entries may precede large ones.
    /// If another window of the key has read larger ones, as many of those as fit, but one at least.
    /// Returns `None` when the window is complete or a limit is reached.
    fn step(&self, limits: &SampleLimits) -> Option<usize> {
        let left = self.entries_max.saturating_sub(self.asked);
        if self.ended || left == 0 {
            return None;
        }
        if self.asked == 0 {
            return Some(1);
        }
        let bytes_left = limits.window_bytes.saturating_sub(self.bytes);
        let fitting = bytes_left / self.largest_bytes.max(1);
        let of_key = (bytes_left / self.largest_of_key.max(1)).max(1);
        let entries = left.min(fitting).min(of_key).min(self.asked).min(limits.step_jobs.max(1));
        Some(entries).filter(|entries| *entries > 0)
    }

    fn question(&self, entries: usize) -> Question {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let (first, last) = (number(self.asked), number(self.asked.saturating_add(entries - 1)));
        let (from, to) = match self.start {
            WindowStart::Rank(rank) => {
                let rank = i64::try_from(rank).unwrap_or(i64::MAX);
                (rank.saturating_add(first), rank.saturating_add(last))
            }
            WindowStart::End => (-1 - last, -1 - first),
        };
        Question::range(self.command, &self.key, from, to)
    }

    /// Parses the reply and returns its size in bytes.
    fn take(&mut self, answer: ReplyResult, entries: usize) -> usize {
        let payloads: Vec<Vec<u8>> = match answer.and_then(RedisReply::read) {
            Ok(payloads) => payloads,
            Err(refusal) => {
                (self.refusal, self.ended) = (Some(refusal), true);
                return 0;
            }
        };
        self.asked = self.asked.saturating_add(entries);
        self.ended = payloads.len() < entries;
        let hashes: Vec<u64> = payloads.iter().map(|payload| hash(payload)).collect();
        let mut jobs: Vec<_> = payloads
            .iter()
            .zip(&hashes)
            // Entries pushed meanwhile shift the others, which are then read twice.
            .filter(|(_, hash)| !self.before.contains(hash))
            .filter_map(|(payload, _)| JobSummary::parse(payload))
            .collect();
        if self.start == WindowStart::End {
            jobs.reverse();
        }
        self.jobs.extend(jobs);
        self.before = hashes;
        let bytes = payloads.iter().map(Vec::len).sum();
        let largest = payloads.iter().map(Vec::len).max().unwrap_or(0);
        self.largest_bytes = self.largest_bytes.max(largest);
        self.bytes = self.bytes.saturating_add(bytes);
        bytes
    }
}

fn hash(payload: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    hasher.finish()
}

/// Tells each window the size of the largest job that was read from its key.
fn share_sizes(windows: &mut [EntryWindow]) {
    let mut largest: BTreeMap<String, usize> = BTreeMap::new();
    for window in windows.iter().filter(|window| window.largest_bytes > 0) {
        let of_key = largest.entry(window.key.clone()).or_default();
        *of_key = window.largest_bytes.max(*of_key);
    }
    for window in windows {
        window.largest_of_key = largest.get(&window.key).copied().unwrap_or_default();
    }
}

impl SnapshotReader<'_> {
    /// Reads the windows up to their limits and those of the sample.
    pub(super) async fn read(&mut self, windows: &mut [EntryWindow]) -> Result<(), SidekiqError> {
        loop {
            share_sizes(windows);
            let step = |(at, window): (usize, &EntryWindow)| Some((at, window.step(self.limits)?));
            let steps: Vec<_> = windows.iter().enumerate().filter_map(step).collect();
            if steps.is_empty() {
                return Ok(());
            }
            // Exceeds the limit by at most one round trip.
            let largest = steps.iter().map(|(_, entries)| *entries).max().unwrap_or(1);
            for round in steps.chunks((self.limits.jobs_per_round / largest).max(1)) {
                if !self.may_read(1) {
                    return Ok(());
                }
                let question = |(at, entries): &(usize, usize)| windows[*at].question(*entries);
                let answers = self.query(&round.iter().map(question).collect::<Vec<_>>()).await?;
                for ((at, entries), answer) in round.iter().zip(answers) {
                    self.job_bytes =
                        self.job_bytes.saturating_add(windows[*at].take(answer, *entries));
                }
            }
        }
    }

    /// Reports whether this many more bytes of jobs are within the limit, and records the limit if
    /// not.
    pub(super) fn may_read(&mut self, bytes: usize) -> bool {
        let max = self.limits.jobs_bytes_max;
        let may = self.job_bytes.saturating_add(bytes) <= max;
        if !may {
            self.cut.insert(format!("jobs_bytes_max ({max})"));
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    fn limits() -> SampleLimits {
        SampleLimits { step_jobs: 20, window_bytes: 1_000, ..SampleLimits::default() }
    }

    /// Reads a list whose entries have these sizes in bytes, newest first.
    fn read(sizes: &[usize], start: WindowStart, entries_max: usize) -> (Vec<usize>, usize) {
        let mut window = EntryWindow::new(ReadCommand::ListRange, "queue:a", start, entries_max);
        let mut steps = Vec::new();
        while let Some(entries) = window.step(&limits()) {
            let entry =
                |at: &usize| Value::BulkString(vec![u8::try_from(*at).unwrap(); sizes[*at]]);
            let from = window.asked;
            let to = (from + entries).min(sizes.len());
            let range: Vec<usize> = match start {
                WindowStart::Rank(_) => (from..to).collect(),
                WindowStart::End => (sizes.len() - to..sizes.len() - from).collect(),
            };
            let value = Value::Array(range.iter().map(entry).collect());
            let answer = window.question(entries).answer(value);
            window.take(answer, entries);
            steps.push(entries);
        }
        (steps, window.bytes)
    }

    #[test]
    fn small_jobs_are_read_in_steps_until_there_are_enough() {
        assert_eq!(
            read(&[2; 200], WindowStart::Rank(0), 100).0,
            [1, 1, 2, 4, 8, 16, 20, 20, 20, 8]
        );
        assert_eq!(
            read(&[2; 30], WindowStart::End, 100).0,
            [1, 1, 2, 4, 8, 16],
            "as many as there are"
        );
        assert_eq!(read(&[], WindowStart::Rank(0), 100).0, [1]);
    }

    #[test]
    fn large_jobs_are_not_asked_for_twice() {
        assert_eq!(read(&[5_000; 200], WindowStart::Rank(0), 100), (vec![1], 5_000));
        assert_eq!(read(&[300; 200], WindowStart::Rank(0), 100), (vec![1, 1, 1], 900));
        let mut sizes = vec![2; 200];
        sizes[..30].fill(800);
        assert_eq!(read(&sizes, WindowStart::Rank(0), 100), (vec![1], 800));
        assert_eq!(read(&sizes, WindowStart::End, 100).0, [1, 1, 2, 4, 8, 16, 20, 20, 20, 8]);
        // One small entry hides no more than one large one.
        sizes[0] = 2;
        sizes[1..].fill(5_000);
        assert_eq!(read(&sizes, WindowStart::Rank(0), 100), (vec![1, 1], 5_002));
    }

    #[test]
    fn a_large_job_in_one_window_shortens_the_steps_of_the_others_of_its_queue() {
        let window = |key: &str, asked: usize, largest_bytes: usize| EntryWindow {
            asked,
            bytes: asked * largest_bytes,
            largest_bytes,
            ..EntryWindow::new(ReadCommand::ListRange, key, WindowStart::Rank(0), 100)
        };
        let mut windows =
            [window("queue:a", 16, 2), window("queue:a", 1, 3_000), window("queue:b", 16, 2)];
        share_sizes(&mut windows);
        let steps = windows.each_ref().map(|window| window.step(&limits()));
        assert_eq!(steps, [Some(1), None, Some(16)]);
        windows[1].largest_bytes = 200;
        share_sizes(&mut windows);
        assert_eq!(windows[0].step(&limits()), Some(4), "968 bytes are left");
    }

    #[test]
    fn a_step_asks_for_what_comes_after_the_one_before() {
        let arguments = |start| {
            let mut window = EntryWindow::new(ReadCommand::ListRange, "queue:a", start, 100);
            window.asked = 21;
            let packed = window.question(20).to_command().get_packed_command();
            let words = String::from_utf8(packed).unwrap();
            words.split("\r\n").skip(6).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(arguments(WindowStart::Rank(500)), ["521", "540"]);
        assert_eq!(arguments(WindowStart::End), ["-41", "-22"]);
    }

    #[test]
    fn what_was_moved_on_by_newer_jobs_is_not_counted_twice() {
        let job = |jid: u32| format!(r#"{{"class":"A","jid":"{jid}"}}"#);
        let list = |jids: &[u32]| {
            Value::Array(jids.iter().map(|jid| Value::BulkString(job(*jid).into())).collect())
        };
        let mut window =
            EntryWindow::new(ReadCommand::ListRange, "queue:a", WindowStart::Rank(0), 5);
        for jids in [&[9, 8][..], &[8, 7][..]] {
            let answer = window.question(2).answer(list(jids));
            window.take(answer, 2);
        }
        assert_eq!(window.jobs.len(), 3);
    }
}
