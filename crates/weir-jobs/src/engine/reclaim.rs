//! Reclaims the disk space of finished jobs.
//!
//! Segments are removed strictly from the oldest on: a record that ends another always follows it,
//! so it is never deleted before the one that it ends. The oldest segment is removed when none of
//! its jobs is live. When dead bytes outweigh live ones (by [`SLACK_SEGMENTS`] at least), its live
//! jobs are first copied to the end of the log. So the log stays within about twice the size of its
//! live jobs, each live byte is copied at most once per byte of garbage, and one old job never
//! keeps later segments alive.

use weir_log::{Disk, RecordPosition};

use super::arena::JobIndex;
use super::core::{Engine, EngineError};
use super::head::{Put, RecordHead};
use super::kept_key::KeptKey;

/// Number of dead segments that are tolerated before live jobs are copied.
const SLACK_SEGMENTS: u32 = 2;

/// Number of jobs copied before other work continues.
const SLICE_JOBS: usize = 128;

/// Number of records examined before other work continues: most of the oldest segment's are dead.
const SLICE_CANDIDATES: usize = 4096;

/// The progress of reclaiming.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    /// Whether to check if a segment can be removed.
    due: bool,
    /// The jobs of the oldest segment that are still to be copied, last first.
    copying: Option<Vec<Candidate>>,
    /// Number of segments begun as of the last check.
    segments_begun: u64,
    /// The segment whose jobs were copied last, and the number of segments begun then. If it is still the oldest, jobs in
    /// it can't be copied now.
    copied: Option<(u32, u64)>,
}

/// A record that may belong to a live job.
#[derive(Clone, Copy, Debug)]
enum Candidate {
    Record(RecordPosition, u32),
    /// A live job that the hash in its record does not find.
    Job(JobIndex),
    /// The record of something that is no job.
    Kept(KeptKey),
}

impl Reclaim {
    /// Schedules a check: a segment's last live job has left it, or all cleared jobs are forgotten.
    pub(crate) const fn look_again(&mut self) {
        self.due = true;
    }

    /// Resets the progress, because all jobs were deleted.
    pub(crate) fn start_over(&mut self) {
        *self = Self { due: true, ..Self::default() };
    }
}

impl<D: Disk> Engine<D> {
    /// Does one slice of the work. Returns true if there is more.
    pub(crate) fn reclaim_slice(&mut self) -> Result<bool, EngineError> {
        if self.reclaim.copying.is_some() {
            return self.copy_slice();
        }
        if !self.reclaim_due() {
            return Ok(false);
        }
        self.remove_dead_segments()?;
        self.reclaim.due = false;
        self.reclaim.segments_begun = self.journal.segments_begun;
        let oldest = self.oldest_sealed().map(|oldest| (oldest, self.reclaim.segments_begun));
        // Forgetting cleared jobs frees segments without copying.
        if self.state.cleared.is_empty() && oldest != self.reclaim.copied && self.worth_copying() {
            self.begin_copying();
            return Ok(true);
        }
        Ok(false)
    }

    /// Returns whether there is work or a check to do.
    pub(crate) const fn reclaim_due(&self) -> bool {
        self.reclaim.due
            || self.reclaim.copying.is_some()
            || self.reclaim.segments_begun != self.journal.segments_begun
    }

    fn remove_dead_segments(&mut self) -> Result<(), EngineError> {
        while let Some(first) = self.oldest_sealed()
            && self.state.segments.live(first) == 0
            && self.journal.remove_first_segment(&self.state)?
        {
            self.state.segments.forget_before(first + 1);
        }
        Ok(())
    }

    fn oldest_sealed(&self) -> Option<u32> {
        self.journal.log.segments().first().filter(|first| first.sealed).map(|first| first.number)
    }

    /// Returns whether dead bytes outweigh live ones.
    fn worth_copying(&self) -> bool {
        let segments = self.journal.log.segments();
        let sealed = segments.iter().filter(|segment| segment.sealed);
        let (mut live, mut dead) = (0.0, 0.0);
        for segment in sealed {
            let bytes = f64::from(segment.bytes);
            let share = self.state.segments.live_share(segment.number);
            live += bytes * share;
            dead += bytes * (1.0 - share);
        }
        let slack = f64::from(SLACK_SEGMENTS) * f64::from(self.settings.limits.segment_bytes);
        dead > f64::max(live, slack)
    }

    fn begin_copying(&mut self) {
        let Some(first) = self.oldest_sealed() else {
            return;
        };
        let mut jobs = Vec::new();
        let result = self.journal.log.heads(first, &mut |found| {
            if let Ok(RecordHead::Put(Put { hash, .. })) = RecordHead::read(found.head) {
                jobs.push(Candidate::Record(found.position, hash));
            }
        });
        if let Err(error) = result {
            tracing::error!(%error, "the oldest segment of the jobs log can't be read: it stays");
            return;
        }
        let rehashed = self.state.rehashed;
        if self.state.unindexed > 0 || rehashed {
            let found = self.state.arena.iter().filter(|(_, entry)| rehashed || !entry.indexed);
            let found = found.filter(|(_, entry)| entry.position.segment == first);
            jobs.extend(found.map(|(job, _)| Candidate::Job(job)));
        }
        let kept = self.state.kept.iter().filter(|(_, position)| position.segment == first);
        jobs.extend(kept.map(|(key, _)| Candidate::Kept(*key)));
        jobs.reverse();
        self.reclaim.copying = Some(jobs);
    }

    fn copy_slice(&mut self) -> Result<bool, EngineError> {
        let Some(mut jobs) = self.reclaim.copying.take() else {
            return Ok(false);
        };
        let oldest = self.oldest_sealed();
        let mut left = SLICE_JOBS;
        for _ in 0..SLICE_CANDIDATES {
            let Some(candidate) = jobs.pop() else {
                break;
            };
            let copied = match (candidate, self.live(candidate, oldest)) {
                (Candidate::Kept(key), _) => self.copy_kept(key, oldest),
                (_, Some(job)) => self.copy(job).map(drop),
                (_, None) => continue,
            };
            if let Err(error) = copied {
                jobs.push(candidate);
                self.reclaim.copying = Some(jobs);
                return Err(error);
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
        if jobs.is_empty() {
            self.reclaim.due = true;
            self.reclaim.copied = oldest.map(|oldest| (oldest, self.journal.segments_begun));
        } else {
            self.reclaim.copying = Some(jobs);
        }
        Ok(true)
    }

    /// Returns the job of a candidate if it is still live in the oldest segment.
    fn live(&self, candidate: Candidate, oldest: Option<u32>) -> Option<JobIndex> {
        let arena = &self.state.arena;
        match candidate {
            Candidate::Record(position, hash) => {
                let mut candidates = self.state.index.candidates(hash, arena);
                let found = candidates.find(|job| arena.get(*job).position == position);
                found.filter(|job| !self.state.is_cleared(*job))
            }
            Candidate::Job(job) => {
                let entry = arena.lookup(job).filter(|_| !self.state.is_cleared(job))?;
                (Some(entry.position.segment) == oldest).then_some(job)
            }
            Candidate::Kept(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_base::clock::Timestamp;
    use weir_log::{ReadAhead, SimulatedDisk, Space};

    use super::*;
    use crate::allocation::Allocation;
    use crate::engine::due::NextCall;
    use crate::job::JobBatch;
    use crate::metrics::JobsMetrics;
    use crate::model::{QueueName, Wid};
    use crate::settings::{JobServerLimits, JobServerSettings};
    use crate::store::{QueueAction, StoreError};

    const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
    const RESERVE_BYTES: u32 = 16 << 10;
    const SEGMENT_BYTES: u32 = 64 << 10;

    fn open(disk: &SimulatedDisk) -> Engine<SimulatedDisk> {
        let limits = JobServerLimits {
            segment_bytes: SEGMENT_BYTES,
            reserve_bytes: RESERVE_BYTES,
            ..JobServerLimits::default()
        };
        let settings = JobServerSettings { limits, ..JobServerSettings::default() };
        let random = fastrand::Rng::with_seed(1);
        let rules = Allocation::default();
        Engine::open(disk.clone(), &settings, &rules, JobsMetrics::detached(), random).unwrap().0
    }

    fn push(
        engine: &mut Engine<SimulatedDisk>,
        jid: &str,
        members: &str,
        bytes: usize,
    ) -> Result<(), EngineError> {
        let padding = "x".repeat(bytes);
        let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":["{padding}"],{members}}}"#);
        let mut batch = JobBatch::new();
        let job = batch.parse_one(json.as_bytes(), NOW, &JobServerLimits::default()).unwrap();
        engine.store(&job, NOW).map(drop)
    }

    /// Does what the sync thread does. A full disk is no error here.
    fn sync(engine: &Engine<SimulatedDisk>) {
        let syncer = engine.journal.log.syncer();
        let _ = syncer.sync();
        let _ = syncer.maintain();
    }

    /// Pushes jobs of 1,000 bytes to the queue `old` until so many segments have begun.
    fn fill_segments(engine: &mut Engine<SimulatedDisk>, segments: u64) {
        for number in 0..10_000 {
            if engine.journal.segments_begun >= segments {
                return;
            }
            push(engine, &format!("filler-{number:05}"), r#""queue":"old""#, 1_000).unwrap();
            sync(engine);
        }
        panic!("the segments do not fill");
    }

    fn clear(engine: &mut Engine<SimulatedDisk>) {
        assert!(engine.act_on_queue("old", QueueAction::Clear).unwrap() > 0);
    }

    /// Ticks, and syncs when the engine asks for that or has failed. Returns when the next call is due, which is not at
    /// once.
    fn tick_until_idle(engine: &mut Engine<SimulatedDisk>, now: Timestamp) -> NextCall {
        for _ in 0..10_000 {
            match engine.tick(now).map(|ticked| ticked.next) {
                Ok(NextCall::Now) => {}
                Ok(next) => return next,
                Err(_) => sync(engine),
            }
        }
        panic!("there is always more to do");
    }

    fn segments(engine: &Engine<SimulatedDisk>) -> usize {
        engine.journal.log.segments().len()
    }

    /// A full disk, and a scheduled job that has no room in the last segment once it is due. All other jobs were cleared.
    fn full_with_a_job_due() -> (SimulatedDisk, Engine<SimulatedDisk>) {
        let disk = SimulatedDisk::new(1);
        let mut engine = open(&disk);
        fill_segments(&mut engine, 5);
        let at = r#""queue":"new","at":"2023-11-14T22:13:30Z""#;
        push(&mut engine, "later-job", at, 20_000).unwrap();
        disk.set_space(Some(disk.used_bytes()));
        for number in 0..200 {
            let filled = push(&mut engine, &format!("last-{number:05}"), r#""queue":"old""#, 1_000);
            sync(&engine);
            if filled == Err(StoreError::DiskFull.into()) {
                break;
            }
        }
        clear(&mut engine);
        (disk, engine)
    }

    #[test]
    fn a_full_disk_gets_space_from_cleared_jobs_while_a_job_is_due() {
        let later = NOW + Duration::from_secs(60);
        let (_, mut engine) = full_with_a_job_due();
        assert!(segments(&engine) > 4);
        let queues = engine.tick(later);
        assert!(queues.is_ok(), "the error comes when nothing else is left to do: {queues:?}");
        tick_until_idle(&mut engine, later);
        assert!(engine.state.cleared.is_empty());
        let taken = engine.take(None, &[name("new")], |_| 0, later).unwrap();
        assert_eq!(&*taken.unwrap().delivery.jid, "later-job");
    }

    #[test]
    fn a_start_looks_for_space_that_a_full_disk_needs() {
        let (disk, mut engine) = full_with_a_job_due();
        sync(&engine);
        engine.journal.log.flush().unwrap();
        let mut engine = open(&disk.kill());
        assert!(segments(&engine) > 4);
        tick_until_idle(&mut engine, NOW + Duration::from_secs(60));
        let taken = engine.take(None, &[name("new")], |_| 0, NOW + Duration::from_secs(60));
        assert_eq!(&*taken.unwrap().unwrap().delivery.jid, "later-job");
    }

    #[test]
    fn segments_are_removed_although_the_last_one_has_no_space_to_record_it() {
        let mut engine = open(&SimulatedDisk::new(1));
        fill_segments(&mut engine, 12);
        clear(&mut engine);
        while !engine.state.cleared.is_empty() {
            engine.forget_cleared(100).unwrap();
        }
        // Each removed segment takes 18 bytes.
        loop {
            let Space::Ok { room_bytes } = engine.journal.log.space() else { panic!("full") };
            if room_bytes < u64::from(SEGMENT_BYTES) + 100 {
                break;
            }
            engine.act_on_queue("old", QueueAction::Pause).unwrap();
            sync(&engine);
        }
        assert!(segments(&engine) > 10);
        tick_until_idle(&mut engine, NOW);
        assert!(segments(&engine) <= 2, "{}", segments(&engine));
        sync(&engine);
        // What they held that counts is in the last one.
        assert!(engine.state.queues.get(0).paused);
    }

    #[test]
    fn jobs_that_cannot_be_copied_now_are_not_tried_again_at_once() {
        let disk = SimulatedDisk::new(1);
        let mut engine = open(&disk);
        push(&mut engine, "first-job", r#""queue":"new""#, 10).unwrap();
        let wid = Wid::new("w1");
        assert!(engine.take(Some(&wid), &[name("new")], |_| 0, NOW).unwrap().is_some());
        fill_segments(&mut engine, 6);
        clear(&mut engine);
        while !engine.state.cleared.is_empty() {
            engine.forget_cleared(100).unwrap();
        }
        assert_eq!(engine.reclaim_slice(), Ok(true), "the first segment is to be copied");
        let oldest = engine.oldest_sealed();
        // Its job was read when it was taken.
        engine.ahead = ReadAhead::new(engine.journal.log.reader());
        disk.fail_reads(Some(5));
        assert_eq!(engine.reclaim_slice(), Ok(true), "its job can't be read, and runs");
        disk.fail_reads(None);
        assert_eq!((engine.reclaim_slice(), engine.oldest_sealed()), (Ok(false), oldest));
        assert!(!engine.reclaim_due());
        // The end of the job frees it.
        assert!(engine.ack(Some(&wid), "first-job", NOW).unwrap().is_some());
        tick_until_idle(&mut engine, NOW);
        assert!(segments(&engine) <= 2, "{}", segments(&engine));
    }

    #[test]
    fn a_record_that_cannot_be_read_just_now_is_copied_later() {
        let disk = SimulatedDisk::new(1);
        let mut engine = open(&disk);
        push(&mut engine, "first-job", r#""queue":"new","custom":{"track":1}"#, 10).unwrap();
        assert!(engine.take(None, &[name("new")], |_| 0, NOW).unwrap().is_some());
        // Its progress is left.
        assert!(engine.ack(None, "first-job", NOW).unwrap().is_some());
        fill_segments(&mut engine, 6);
        clear(&mut engine);
        while !engine.state.cleared.is_empty() {
            engine.forget_cleared(100).unwrap();
        }
        let oldest = engine.oldest_sealed();
        assert!(engine.state.kept.values().any(|position| Some(position.segment) == oldest));
        assert_eq!(engine.reclaim_slice(), Ok(true), "the first segment is to be copied");
        let too_many_open_files = 24;
        disk.fail_reads(Some(too_many_open_files));
        for _ in 0..2 {
            let failed = engine.reclaim_slice();
            assert!(matches!(failed, Err(EngineError::Store(StoreError::Failed(_)))), "{failed:?}");
        }
        disk.fail_reads(None);
        tick_until_idle(&mut engine, NOW);
        assert!(segments(&engine) <= 2, "{}", segments(&engine));
    }

    fn name(name: &str) -> QueueName {
        QueueName::parse(name, &JobServerLimits::default()).unwrap()
    }
}
