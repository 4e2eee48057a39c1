//! What producers were told and what workers have received, kept outside of the system under test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::JobId;
use crate::soak::fault::Fault;
use crate::soak::window::Windows;

/// Violations that the report shows.
const EXAMPLES_MAX: usize = 20;
/// Faults after which the lock of a unique job may have ended early.
const LOCK_FAULTS: [Fault; 1] = [Fault::ClockStep];

/// What the producer was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Push {
    #[default]
    Sent,
    Acknowledged,
    /// The connection broke before the reply, or the push was rejected.
    Unknown,
}

#[derive(Debug, Clone, Default)]
struct Job {
    push: Push,
    push_began: Duration,
    push_ended: Duration,
    /// The last run began.
    run_began: Option<Duration>,
    runs: u32,
    /// The last run ended with FAIL, so that another one is expected.
    has_failed: bool,
    /// The ACK was sent; its reply may have been lost.
    ack_sent: Option<Duration>,
    is_acknowledged: bool,
}

/// A job that ran again although its last run had not failed.
#[derive(Debug, Clone)]
struct Repetition {
    id: JobId,
    /// The ACK of the run before had its reply.
    was_acknowledged: bool,
    from: Duration,
    to: Duration,
}

/// A job of the ordered queue that ran after a later one.
#[derive(Debug, Clone)]
struct Inversion {
    id: JobId,
    after: usize,
    from: Duration,
    to: Duration,
}

#[derive(Debug, Default)]
struct Batch {
    is_committed: bool,
    /// Batches of which an operation had no reply: what they have to do is not known.
    is_unknown: bool,
    jobs: Vec<JobId>,
    callbacks: BTreeSet<String>,
    first_callback: Option<Duration>,
}

#[derive(Debug, Default)]
struct Entries {
    /// By producer and number.
    jobs: Vec<Vec<Job>>,
    /// The producer whose queue is checked for order, and the greatest number that has run.
    ordered: Option<usize>,
    ordered_last: Option<usize>,
    repetitions: Vec<Repetition>,
    inversions: Vec<Inversion>,
    /// Acknowledged pushes by unique key, in the order in which they were sent.
    unique: BTreeMap<usize, Vec<JobId>>,
    batches: Vec<Batch>,
    foreign: u64,
}

#[derive(Debug, Default)]
pub(in crate::soak) struct Ledger {
    entries: Mutex<Entries>,
}

/// The outcome.
#[derive(Debug, Default, Serialize)]
pub(in crate::soak) struct JobCounts {
    pub(in crate::soak) pushed: u64,
    pub(in crate::soak) pushes_unknown: u64,
    pub(in crate::soak) runs: u64,
    pub(in crate::soak) lost: u64,
    pub(in crate::soak) run_again: u64,
    pub(in crate::soak) run_again_after_ack: u64,
    pub(in crate::soak) run_again_unexplained: u64,
    pub(in crate::soak) reordered: u64,
    pub(in crate::soak) reordered_explained: u64,
    pub(in crate::soak) unique_pushed: u64,
    pub(in crate::soak) unique_violations: u64,
    pub(in crate::soak) batches: u64,
    pub(in crate::soak) batches_unknown: u64,
    pub(in crate::soak) batches_without_callback: u64,
    pub(in crate::soak) batches_with_two_callbacks: u64,
    pub(in crate::soak) callbacks_too_early: u64,
    pub(in crate::soak) foreign: u64,
    pub(in crate::soak) examples: Vec<String>,
}

impl JobCounts {
    #[cfg(test)]
    fn violations(&self) -> u64 {
        self.lost
            + self.run_again_unexplained
            + self.reordered
            + self.unique_violations
            + self.batches_without_callback
            + self.batches_with_two_callbacks
            + self.callbacks_too_early
            + self.foreign
    }

    fn example(&mut self, text: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(text());
        }
    }
}

impl Ledger {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a producer and returns its number.
    pub(super) fn add_producer(&self, is_ordered: bool) -> usize {
        let mut entries = self.entries();
        let producer = entries.jobs.len();
        entries.jobs.push(Vec::new());
        if is_ordered {
            entries.ordered = Some(producer);
        }
        producer
    }

    /// Records a push before it is sent. Returns the job's identity.
    pub(super) fn begin_push(&self, producer: usize, at: Duration) -> JobId {
        let mut entries = self.entries();
        let jobs = &mut entries.jobs[producer];
        jobs.push(Job { push_began: at, ..Job::default() });
        JobId { producer, number: jobs.len() - 1 }
    }

    pub(super) fn end_push(&self, id: JobId, is_acknowledged: bool, at: Duration) {
        let mut entries = self.entries();
        let job = &mut entries.jobs[id.producer][id.number];
        job.push = if is_acknowledged { Push::Acknowledged } else { Push::Unknown };
        job.push_ended = at;
    }

    /// Records that a unique job was accepted.
    pub(super) fn record_unique(&self, key: usize, id: JobId) {
        self.entries().unique.entry(key).or_default().push(id);
    }

    pub(super) fn begin_batch(&self) -> usize {
        let mut entries = self.entries();
        entries.batches.push(Batch::default());
        entries.batches.len() - 1
    }

    pub(super) fn end_batch(&self, batch: usize, jobs: Vec<JobId>, is_committed: bool) {
        let mut entries = self.entries();
        let batch = &mut entries.batches[batch];
        batch.jobs = jobs;
        batch.is_committed = is_committed;
        batch.is_unknown = !is_committed;
    }

    /// A worker has received a job.
    pub(super) fn run_began(&self, jid: &str, at: Duration) {
        let mut entries = self.entries();
        let Some(id) = JobId::parse(jid).filter(|id| entries.job(*id).is_some()) else {
            entries.foreign += 1;
            return;
        };
        if entries.ordered == Some(id.producer) {
            entries.check_order(id, at);
        }
        let job = &mut entries.jobs[id.producer][id.number];
        let repetition = job.run_began.filter(|_| !job.has_failed).map(|from| Repetition {
            id,
            was_acknowledged: job.is_acknowledged,
            from,
            to: at,
        });
        job.runs += 1;
        job.run_began = Some(at);
        job.has_failed = false;
        entries.repetitions.extend(repetition);
    }

    pub(super) fn callback_began(&self, jid: &str, batch: usize, at: Duration) {
        let mut entries = self.entries();
        let Some(batch) = entries.batches.get_mut(batch) else {
            entries.foreign += 1;
            return;
        };
        batch.callbacks.insert(jid.to_owned());
        batch.first_callback.get_or_insert(at);
    }

    pub(super) fn failed(&self, jid: &str) {
        self.change(jid, |job| job.has_failed = true);
    }

    pub(super) fn ack_sent(&self, jid: &str, at: Duration) {
        self.change(jid, |job| {
            job.ack_sent.get_or_insert(at);
        });
    }

    pub(super) fn acknowledged(&self, jid: &str) {
        self.change(jid, |job| job.is_acknowledged = true);
    }

    fn change(&self, jid: &str, change: impl FnOnce(&mut Job)) {
        let mut entries = self.entries();
        let Some(id) = JobId::parse(jid) else { return };
        if let Some(job) = entries.job_mut(id) {
            change(job);
        }
    }

    /// Returns how many acknowledged jobs are not done, and batches without their callback.
    pub(in crate::soak) fn left(&self) -> usize {
        let entries = self.entries();
        let jobs = entries.jobs.iter().flatten().filter(|job| job.is_left()).count();
        let is_left = |batch: &&Batch| batch.is_committed && batch.callbacks.is_empty();
        jobs + entries.batches.iter().filter(is_left).count()
    }

    pub(in crate::soak) fn check(&self, windows: &Windows) -> JobCounts {
        let entries = self.entries();
        let mut counts = JobCounts { foreign: entries.foreign, ..JobCounts::default() };
        entries.check_lost(&mut counts);
        entries.check_repetitions(windows, &mut counts);
        entries.check_inversions(windows, &mut counts);
        entries.check_unique(windows, &mut counts);
        entries.check_batches(&mut counts);
        counts
    }
}

impl Job {
    fn is_left(&self) -> bool {
        self.push == Push::Acknowledged && self.ack_sent.is_none()
    }
}

impl Entries {
    fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(id.producer)?.get(id.number)
    }

    fn job_mut(&mut self, id: JobId) -> Option<&mut Job> {
        self.jobs.get_mut(id.producer)?.get_mut(id.number)
    }

    /// Of the first runs: a job that runs again returns to its queue at some time.
    fn check_order(&mut self, id: JobId, at: Duration) {
        let Some(job) = self.job(id).filter(|job| job.runs == 0) else {
            return;
        };
        let is_known = job.push != Push::Unknown;
        match self.ordered_last {
            Some(after) if id.number < after && is_known => {
                let from = job.push_began;
                self.inversions.push(Inversion { id, after, from, to: at });
            }
            last => self.ordered_last = last.max(Some(id.number)),
        }
    }

    fn check_lost(&self, counts: &mut JobCounts) {
        for (producer, jobs) in self.jobs.iter().enumerate() {
            for (number, job) in jobs.iter().enumerate() {
                counts.runs += u64::from(job.runs);
                match job.push {
                    Push::Acknowledged => counts.pushed += 1,
                    Push::Sent | Push::Unknown => counts.pushes_unknown += 1,
                }
                if job.is_left() {
                    counts.lost += 1;
                    let jid = JobId { producer, number }.jid();
                    let runs = job.runs;
                    counts.example(|| {
                        format!("{jid} was acknowledged and is not done ({runs} runs)")
                    });
                }
            }
        }
    }

    fn check_repetitions(&self, windows: &Windows, counts: &mut JobCounts) {
        for Repetition { id, was_acknowledged, from, to } in &self.repetitions {
            counts.run_again += 1;
            counts.run_again_after_ack += u64::from(*was_acknowledged);
            if !windows.explain(*from, *to) {
                counts.run_again_unexplained += 1;
                let (jid, after) = (id.jid(), to.saturating_sub(*from).as_secs_f64());
                counts.example(|| format!("{jid} ran again after {after:.1} s without a fault"));
            }
        }
    }

    fn check_inversions(&self, windows: &Windows, counts: &mut JobCounts) {
        for Inversion { id, after, from, to } in &self.inversions {
            if windows.explain(*from, *to) {
                counts.reordered_explained += 1;
                continue;
            }
            counts.reordered += 1;
            let jid = id.jid();
            counts.example(|| format!("{jid} ran after number {after} of the same queue"));
        }
    }

    fn check_unique(&self, windows: &Windows, counts: &mut JobCounts) {
        for (key, ids) in &self.unique {
            counts.unique_pushed += ids.len() as u64;
            for pair in ids.windows(2) {
                let (Some(first), Some(second)) = (self.job(pair[0]), self.job(pair[1])) else {
                    continue;
                };
                let was_done = first.ack_sent.is_some_and(|at| at <= second.push_ended);
                let (from, to) = (first.push_began, second.push_ended);
                if was_done || windows.explain_by(&LOCK_FAULTS, from, to) {
                    continue;
                }
                counts.unique_violations += 1;
                let jids = (pair[0].jid(), pair[1].jid());
                counts.example(|| {
                    format!("{} was accepted while {} had the lock {key}", jids.1, jids.0)
                });
            }
        }
    }

    fn check_batches(&self, counts: &mut JobCounts) {
        for (number, batch) in self.batches.iter().enumerate() {
            counts.batches += u64::from(batch.is_committed);
            counts.batches_unknown += u64::from(batch.is_unknown);
            if batch.is_committed && batch.callbacks.is_empty() {
                counts.batches_without_callback += 1;
                counts.example(|| format!("batch {number} was committed and has no callback"));
            }
            if batch.callbacks.len() > 1 {
                counts.batches_with_two_callbacks += 1;
                counts.example(|| format!("batch {number} has callbacks {:?}", batch.callbacks));
            }
            let is_done = |id: &JobId| {
                self.job(*id)
                    .and_then(|job| job.ack_sent)
                    .is_some_and(|at| batch.first_callback.is_some_and(|callback| at <= callback))
            };
            let is_early = batch.is_committed && batch.first_callback.is_some();
            if is_early && !batch.jobs.iter().all(is_done) {
                counts.callbacks_too_early += 1;
                counts.example(|| format!("the callback of batch {number} ran before a job's end"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::window::Window;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn windows() -> Windows {
        let mut windows = Windows::default();
        let (fault, detail) = (Fault::WeirKill, String::new());
        let (began, undone, recovered) = (at(100), at(101), Some(at(102)));
        windows.push(Window { fault, detail, began, undone, recovered });
        windows
    }

    /// A ledger with this many acknowledged jobs of an ordered queue.
    fn pushed(jobs: usize) -> (Ledger, Vec<JobId>) {
        let ledger = Ledger::default();
        let producer = ledger.add_producer(true);
        let ids = (0..jobs).map(|_| {
            let id = ledger.begin_push(producer, at(1));
            ledger.end_push(id, true, at(1));
            id
        });
        let ids = ids.collect();
        (ledger, ids)
    }

    fn run(ledger: &Ledger, id: JobId, seconds: u64) {
        ledger.run_began(&id.jid(), at(seconds));
        ledger.ack_sent(&id.jid(), at(seconds));
        ledger.acknowledged(&id.jid());
    }

    #[test]
    fn acknowledged_job_that_never_ends_is_lost() {
        let (ledger, ids) = pushed(2);
        run(&ledger, ids[0], 2);
        assert_eq!(ledger.left(), 1);
        let counts = ledger.check(&Windows::default());
        assert_eq!((counts.pushed, counts.lost, counts.violations()), (2, 1, 1));
    }

    #[test]
    fn second_run_needs_a_failure_or_a_fault() {
        let (ledger, ids) = pushed(3);
        for id in &ids {
            ledger.run_began(&id.jid(), at(2));
        }
        ledger.failed(&ids[0].jid());
        run(&ledger, ids[0], 20);
        run(&ledger, ids[1], 103);
        run(&ledger, ids[2], 20);
        let counts = ledger.check(&windows());
        assert_eq!((counts.run_again, counts.run_again_unexplained, counts.lost), (2, 1, 0));
    }

    #[test]
    fn first_runs_are_in_order() {
        let (ledger, ids) = pushed(3);
        for (place, seconds) in [(1, 2), (0, 3), (2, 4), (1, 5)] {
            run(&ledger, ids[place], seconds);
        }
        assert_eq!(ledger.check(&Windows::default()).reordered, 1);
    }

    #[test]
    fn lock_of_a_unique_job_holds_until_it_is_done() {
        let (ledger, ids) = pushed(2);
        ledger.record_unique(1, ids[0]);
        ledger.record_unique(1, ids[1]);
        run(&ledger, ids[0], 2);
        run(&ledger, ids[1], 3);
        assert_eq!(ledger.check(&Windows::default()).unique_violations, 1);
    }

    #[test]
    fn batch_has_one_callback_after_its_jobs() {
        let (ledger, ids) = pushed(1);
        let batch = || {
            let batch = ledger.begin_batch();
            ledger.end_batch(batch, ids.clone(), true);
            batch
        };
        let (good, early, twice, none) = (batch(), batch(), batch(), batch());
        run(&ledger, ids[0], 5);
        for (jid, batch, seconds) in
            [("a", good, 6), ("a", good, 7), ("b", early, 4), ("c", twice, 6), ("d", twice, 7)]
        {
            ledger.callback_began(jid, batch, at(seconds));
        }
        assert_eq!(ledger.left(), 1, "batch {none}");
        let counts = ledger.check(&Windows::default());
        assert_eq!((counts.batches, counts.batches_without_callback), (4, 1));
        assert_eq!((counts.batches_with_two_callbacks, counts.callbacks_too_early), (1, 1));
    }
}
