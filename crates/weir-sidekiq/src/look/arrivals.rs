//! Counts the jobs that arrived since an earlier sample.
//!
//! Jobs are pushed at the head of a list, so enqueue times decrease from head to tail. A search
//! with doubling and then halving steps finds the first job older than the earlier sample. The
//! newest hundred jobs are not enough: after a burst they show only the rate of the burst.

use weir_base::clock::Timestamp;

use crate::error::SidekiqError;
use crate::job::JobSummary;
use crate::keys;
use crate::questions::{Question, ReadCommand, RedisReply};
use crate::snapshot::QueueSample;

use super::SnapshotReader;

/// Twice the binary logarithm of more jobs than any Redis can store.
const STEPS_MAX: usize = 64;

/// A search for the first older job: at index `older` or before, and after index `newer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Search {
    /// Index of a job that is newer.
    newer: u64,
    /// Index of a job that is older, or the length.
    older: u64,
    /// Whether no older job was found so far.
    is_doubling: bool,
    /// When the job at `older` was read, or the length. Jobs that are pushed during the search move the
    /// others, so the result is the number of arrivals until about then.
    until: Option<Timestamp>,
}

impl Search {
    /// Starts after the first `known` jobs, which are newer.
    const fn behind(known: u64, length: u64, until: Option<Timestamp>) -> Self {
        Self { newer: known.saturating_sub(1), older: length, is_doubling: true, until }
    }

    /// Returns the index to check next, or `None` when the search is complete.
    fn next(self) -> Option<u64> {
        if self.older - self.newer <= 1 {
            return None;
        }
        let middle = self.newer.midpoint(self.older);
        let doubled = (self.newer + 1).saturating_mul(2);
        Some(if self.is_doubling { doubled.min(middle) } else { middle })
    }

    const fn note(&mut self, place: u64, is_newer: bool, at: Timestamp) {
        if is_newer {
            self.newer = place;
        } else {
            (self.older, self.is_doubling, self.until) = (place, false, Some(at));
        }
    }
}

impl SnapshotReader<'_> {
    /// Sets [`QueueSample::came`] of each queue. Stays `None` if a job has no enqueue time or is
    /// too large.
    pub(super) async fn count_arrivals(
        &mut self,
        queues: &mut [QueueSample],
        since: Timestamp,
    ) -> Result<(), SidekiqError> {
        let mut searches = Vec::new();
        for (at, queue) in queues.iter_mut().enumerate() {
            let known = queue.newest.len() as u64;
            match queue.newest.iter().position(|time| *time <= since) {
                Some(place) => queue.came = Some(place as u64),
                None if known >= queue.length => queue.came = Some(queue.length),
                None if known > 0 => {
                    let search = Search::behind(known, queue.length, queue.came_until);
                    searches.push((at, search));
                }
                None => {}
            }
        }
        for _ in 0..STEPS_MAX {
            let step = |(at, search): &(usize, Search)| Some((*at, search.next()?));
            let steps: Vec<_> = searches.iter().map(step).collect();
            for ((at, search), step) in searches.iter().zip(&steps) {
                if step.is_none() {
                    let queue = &mut queues[*at];
                    (queue.came, queue.came_until) = (Some(search.older), search.until);
                }
            }
            searches.retain(|(_, search)| search.next().is_some());
            if searches.is_empty() || !self.may_read(1) {
                return Ok(());
            }
            let question = |(at, place): (usize, u64)| {
                let place = i64::try_from(place).unwrap_or(i64::MAX);
                Question::range(
                    ReadCommand::ListRange,
                    &keys::queue(&queues[at].name),
                    place,
                    place,
                )
            };
            let questions: Vec<_> = steps.into_iter().flatten().map(question).collect();
            let (now, answers) = self.query_timed(questions).await?;
            let mut known = Vec::with_capacity(searches.len());
            for ((at, mut search), answer) in searches.into_iter().zip(answers) {
                let read = answer.and_then(RedisReply::read::<Vec<Vec<u8>>>).unwrap_or_default();
                self.job_bytes =
                    self.job_bytes.saturating_add(read.iter().map(Vec::len).sum::<usize>());
                let time = read.first().and_then(|it| JobSummary::parse(it)?.enqueued_at);
                // If the list has become shorter meanwhile, there is no job at the index, and all
                // before it are newer.
                if let (Some(time), Some(place)) = (time, search.next()) {
                    search.note(place, time > since, now);
                    known.push((at, search));
                }
            }
            searches = known;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a list with `newer` newer jobs. Returns their number as found, and the number of
    /// steps.
    fn find(newer: u64, known: u64, length: u64) -> (u64, usize) {
        let mut search = Search::behind(known.min(newer), length, None);
        let mut steps = 0;
        while let Some(place) = search.next() {
            search.note(place, place < newer, Timestamp::from_millis(0));
            steps += 1;
        }
        (search.older, steps)
    }

    #[test]
    fn the_first_that_is_older_is_found_in_few_steps() {
        for newer in [100, 101, 150, 500, 9_999, 199_999, 200_000] {
            let (found, steps) = find(newer, 100, 200_000);
            assert_eq!(found, newer);
            assert!(steps <= 30, "{newer}: {steps}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_list_holds_it_is_found(length in 2..5_000u64, known in 1..200u64, newer in 1..5_000u64) {
            let (length, newer) = (length.max(newer), newer);
            let (found, steps) = find(newer, known, length);
            proptest::prop_assert_eq!(found, newer);
            proptest::prop_assert!(steps < STEPS_MAX);
        }
    }
}
