//! Which jobs one script moves. Redis removes from the middle of a list only after it has compared all entries
//! up to there, which takes more than a millisecond for 20,000 of them. So a script moves many jobs, but not
//! so many that what it does for each takes longer than that.

use redis::ScriptInvocation;

use super::entries::RawEntry;
use super::features::FeatureEvent;

/// Jobs that one script moves. To mark one in the middle of a list of a million takes some 0.05 ms.
const JOBS_MAX: usize = 250;
/// Entries among which they are searched. To read as many takes some 4 ms.
const SPAN_MAX: usize = 5_000;
/// Bytes of the jobs that one script moves, and of the entries that it reads at once.
const BYTES_MAX: usize = 4 << 20;
/// Entries that it reads at once.
const PIECE_MAX: usize = 250;

/// The reply of a script about a job that it has moved.
pub(super) const MOVED: i8 = 1;

/// A job's text and its new text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MovedText {
    pub(super) old: Vec<u8>,
    pub(super) new: Vec<u8>,
    /// Where it was read, as [`RawEntry::position`].
    pub(super) position: usize,
    /// What the move means for the features of the job, if it has any, and its tag.
    pub(super) tag: Option<(FeatureEvent, String)>,
}

impl MovedText {
    /// A job that moves as it is.
    pub(super) fn unchanged(entry: RawEntry) -> Self {
        let RawEntry { payload, position, .. } = entry;
        Self { old: payload.clone(), new: payload, position, tag: None }
    }
}

/// Jobs that one script moves.
#[derive(Debug)]
pub(super) struct MoveRun<'t> {
    pub(super) texts: &'t [MovedText],
    first: usize,
    last: usize,
}

/// Where a script searches jobs in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NearPositions {
    first: usize,
    last: usize,
    /// Entries to read at once.
    piece: usize,
}

impl<'t> MoveRun<'t> {
    /// Splits jobs into runs, in their order.
    pub(super) fn split(texts: &'t [MovedText]) -> Vec<Self> {
        let (mut runs, mut rest) = (Vec::new(), texts);
        while let Some(run) = Self::first_of(rest) {
            rest = &rest[run.texts.len()..];
            runs.push(run);
        }
        runs
    }

    fn first_of(texts: &'t [MovedText]) -> Option<Self> {
        let (mut first, mut last) = texts.first().map(|text| (text.position, text.position))?;
        let (mut count, mut bytes) = (0, 0);
        for text in texts {
            bytes += text.old.len() + text.new.len();
            let wider = (first.min(text.position), last.max(text.position));
            let is_full = count == JOBS_MAX || bytes > BYTES_MAX || wider.1 - wider.0 >= SPAN_MAX;
            if count > 0 && is_full {
                break;
            }
            (first, last) = wider;
            count += 1;
        }
        Some(Self { texts: &texts[..count], first, last })
    }

    /// Returns the job at `place` as a run of its own.
    pub(super) fn alone(&self, place: usize) -> Self {
        let text = &self.texts[place];
        Self { texts: std::slice::from_ref(text), first: text.position, last: text.position }
    }

    /// Adds the arguments of the jobs.
    pub(super) fn add_texts(texts: &[MovedText], invocation: &mut ScriptInvocation<'_>) {
        let event = texts.iter().find_map(|text| text.tag.as_ref()).map(|(event, _)| *event);
        for text in texts {
            invocation.arg(&text.old).arg(&text.new);
            if event.is_some() {
                invocation.arg(text.tag.as_ref().map_or("", |(_, tag)| tag));
            }
        }
        if let Some(event) = event {
            invocation.arg(event.as_str());
        }
    }

    /// Returns where the jobs are after those at the positions `left` have left.
    pub(super) fn near(&self, left: &[usize]) -> NearPositions {
        let before = left.iter().filter(|position| **position < self.first).count();
        let largest = self.texts.iter().map(|text| text.old.len()).max().unwrap_or_default();
        NearPositions {
            first: self.first - before,
            last: self.last - before,
            piece: (BYTES_MAX / largest.max(1)).clamp(1, PIECE_MAX),
        }
    }
}

impl NearPositions {
    /// Adds the arguments that `near.lua` needs.
    pub(super) fn add_to(&self, invocation: &mut ScriptInvocation<'_>) {
        // No entry of the list equals it.
        let mark = format!("weir-moved-{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        invocation.arg(self.first).arg(self.last).arg(self.piece).arg(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(position: usize, bytes: usize) -> MovedText {
        MovedText { old: vec![b'x'; bytes], position, ..MovedText::default() }
    }

    #[test]
    fn a_run_has_bounds_in_jobs_positions_and_bytes() {
        let lengths = |texts: &[MovedText]| -> Vec<usize> {
            MoveRun::split(texts).iter().map(|run| run.texts.len()).collect()
        };
        let row: Vec<_> = (0..600).map(|position| text(position, 10)).collect();
        assert_eq!(lengths(&row), [250, 250, 100]);
        let sparse: Vec<_> = (0..4).map(|number| text(number * 2_500, 10)).collect();
        assert_eq!(lengths(&sparse), [2, 2]);
        let unordered = [text(9_000, 10), text(0, 10), text(1, 10)];
        assert_eq!(lengths(&unordered), [1, 2]);
        let large: Vec<_> = (0..4).map(|position| text(position, 3 << 20)).collect();
        assert_eq!(lengths(&large), [1, 1, 1, 1]);
        assert_eq!(lengths(&[]), [0_usize; 0]);
    }

    #[test]
    fn later_runs_are_searched_nearer_by_the_jobs_that_have_left() {
        let texts = [text(9_000, 10), text(9_002, 3 << 20)];
        let run = &MoveRun::split(&texts)[0];
        let near = run.near(&[1, 2, 3, 9_001]);
        assert_eq!(near, NearPositions { first: 8_997, last: 8_999, piece: 1 });
    }
}
