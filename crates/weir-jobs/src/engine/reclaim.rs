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
        self.reclaim.due = false;
        self.reclaim.segments_begun = self.journal.segments_begun;
        self.remove_dead_segments();
        // Forgetting cleared jobs frees segments without copying.
        if self.state.cleared.is_empty() && self.worth_copying() {
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

    fn remove_dead_segments(&mut self) {
        while let Some(first) = self.oldest_sealed() {
            if self.state.segments.live(first) > 0 || !self.journal.log.remove_first_segment() {
                break;
            }
            self.journal.segments_removed += 1;
            self.state.segments.forget_before(first + 1);
        }
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
