//! The waiting jobs of one queue, in order, at 4 bytes per job.
//!
//! A list of short runs. Jobs are added at the end and removed at either end in O(1). Returning a
//! job to its position, or deleting one, takes a binary search and a move within one run.

use std::collections::VecDeque;

use super::arena::{Arena, JobIndex};

/// Maximum number of jobs per run, so that moves within a run stay below 2 KiB. Small in tests, so that there are many.
const RUN_JOBS: usize = if cfg!(test) { 8 } else { 512 };

/// Waiting jobs, sorted by their entries' `order`.
#[derive(Debug, Default)]
pub(crate) struct WaitingList {
    runs: VecDeque<JobRun>,
    len: usize,
}

/// Some jobs in order.
#[derive(Debug)]
struct JobRun {
    jobs: VecDeque<JobIndex>,
    /// At least the order of the last job, and less than that of the next run's first: finds the run of a job without
    /// reading the entries of others.
    up_to: u64,
}

impl WaitingList {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the job that has waited longest.
    pub(crate) fn first(&self) -> Option<JobIndex> {
        self.runs.front().and_then(|run| run.jobs.front()).copied()
    }

    /// Returns the newest job.
    pub(crate) fn last(&self) -> Option<JobIndex> {
        self.runs.back().and_then(|run| run.jobs.back()).copied()
    }

    /// Inserts a job by its order; at the end in O(1).
    pub(crate) fn insert(&mut self, job: JobIndex, arena: &Arena) {
        let order = arena.get(job).order;
        self.len += 1;
        let at_end = self.last().is_none_or(|last| arena.get(last).order < order);
        if at_end {
            return self.push_back(job, order);
        }
        let (run, place) = self.seek(order, arena);
        self.runs[run].jobs.insert(place, job);
        self.split(run, arena);
    }

    /// Removes and returns the job that has waited longest.
    pub(crate) fn pop_first(&mut self) -> Option<JobIndex> {
        let job = self.runs.front_mut()?.jobs.pop_front()?;
        if self.runs.front().is_some_and(|run| run.jobs.is_empty()) {
            self.runs.pop_front();
        }
        self.len -= 1;
        Some(job)
    }

    /// Removes and returns the newest job.
    pub(crate) fn pop_last(&mut self) -> Option<JobIndex> {
        let job = self.runs.back_mut()?.jobs.pop_back()?;
        if self.runs.back().is_some_and(|run| run.jobs.is_empty()) {
            self.runs.pop_back();
        }
        self.len -= 1;
        Some(job)
    }

    /// Removes a job from any position.
    ///
    /// # Panics
    /// If the job is not in the list.
    pub(crate) fn remove(&mut self, job: JobIndex, arena: &Arena) {
        if self.first() == Some(job) {
            self.pop_first();
            return;
        }
        let number = self.run_of(arena.get(job).order);
        let jobs = &mut self.runs[number].jobs;
        // Faster than a binary search, which would read an entry for each step.
        let place = jobs.iter().position(|other| *other == job);
        jobs.remove(place.expect("a waiting job is in its list"));
        if jobs.is_empty() {
            self.runs.remove(number);
        }
        self.len -= 1;
    }

    /// Returns whether the job is in the list.
    pub(crate) fn contains(&self, job: JobIndex, arena: &Arena) -> bool {
        let run = self.runs.get(self.run_of(arena.get(job).order));
        run.is_some_and(|run| run.jobs.contains(&job))
    }

    /// Returns the jobs at these positions, which are sorted. Steps over whole runs.
    pub(crate) fn at_positions(&self, positions: &[usize]) -> Vec<JobIndex> {
        let mut found = Vec::with_capacity(positions.len());
        let (mut runs, mut before) = (self.runs.iter().peekable(), 0);
        for position in positions {
            while let Some(run) = runs.next_if(|run| *position >= before + run.jobs.len()) {
                before += run.jobs.len();
            }
            found.extend(runs.peek().and_then(|run| run.jobs.get(position - before)));
        }
        found
    }

    /// Iterates over the jobs after `after` (exclusive), in order.
    pub(crate) fn after<'a>(
        &'a self,
        after: Option<u64>,
        arena: &'a Arena,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        let (run, place) = match after {
            Some(order) => self.seek(order.saturating_add(1), arena),
            None => (0, 0),
        };
        let skip_in_first = move |(nth, run): (usize, &'a JobRun)| {
            run.jobs.iter().skip(if nth == 0 { place } else { 0 }).copied()
        };
        self.runs.iter().skip(run).enumerate().flat_map(skip_in_first)
    }

    /// Iterates over the jobs before `before` (exclusive), newest first.
    pub(crate) fn before<'a>(
        &'a self,
        before: Option<u64>,
        arena: &'a Arena,
    ) -> impl Iterator<Item = JobIndex> + 'a {
        let (run, place) = match before {
            Some(order) => self.seek(order, arena),
            None => (self.runs.len(), 0),
        };
        let rest =
            self.runs.get(run).into_iter().flat_map(move |run| run.jobs.iter().take(place).rev());
        rest.chain(self.runs.iter().take(run).rev().flat_map(|run| run.jobs.iter().rev())).copied()
    }

    fn push_back(&mut self, job: JobIndex, order: u64) {
        match self.runs.back_mut().filter(|run| run.jobs.len() < RUN_JOBS) {
            Some(run) => {
                run.jobs.push_back(job);
                run.up_to = order;
            }
            None => {
                if let Some(before) = self.runs.back_mut() {
                    before.up_to = before.up_to.min(order - 1);
                }
                // Start with a short run, because most queues are short.
                let mut jobs =
                    VecDeque::with_capacity(if self.runs.is_empty() { 4 } else { RUN_JOBS });
                jobs.push_back(job);
                self.runs.push_back(JobRun { jobs, up_to: order });
            }
        }
    }

    /// Returns the index of the run in which a job with this order is.
    fn run_of(&self, order: u64) -> usize {
        let is_below = |run: &JobRun| run.up_to < order;
        // Most jobs are at either end.
        match (self.runs.front(), self.runs.len()) {
            (Some(first), _) if !is_below(first) => 0,
            (_, count @ 2..) if is_below(&self.runs[count - 2]) => {
                count - usize::from(!is_below(&self.runs[count - 1]))
            }
            _ => self.runs.partition_point(is_below),
        }
    }

    /// Returns the run and index of the first job whose order is at least `order`.
    fn seek(&self, order: u64, arena: &Arena) -> (usize, usize) {
        let run = self.run_of(order);
        let below = |job: &JobIndex| arena.get(*job).order < order;
        let place = self.runs.get(run).map_or(0, |run| run.jobs.partition_point(below));
        (run, place)
    }

    fn split(&mut self, run: usize, arena: &Arena) {
        let JobRun { jobs, up_to } = &mut self.runs[run];
        if jobs.len() <= RUN_JOBS {
            return;
        }
        let upper = JobRun { jobs: jobs.split_off(RUN_JOBS / 2), up_to: *up_to };
        *up_to = jobs.back().map_or(0, |last| arena.get(*last).order);
        self.runs.insert(run + 1, upper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::arena::{ArenaEntry, EntryState};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use weir_log::RecordPosition;

    fn job(arena: &mut Arena, order: u64) -> JobIndex {
        arena.insert(ArenaEntry {
            position: RecordPosition { segment: 0, offset: 0 },
            order,
            hash: 0,
            queue: 0,
            rest: EntryState::Waiting,
            indexed: false,
        })
    }

    #[test]
    fn the_last_job_returns_after_others_have_filled_its_run() {
        let (mut arena, mut list) = (Arena::default(), WaitingList::default());
        let jobs: Vec<_> = (0..=RUN_JOBS as u64).map(|order| job(&mut arena, order)).collect();
        let (last, second) = (jobs[RUN_JOBS], jobs[1]);
        for job in jobs.iter().filter(|job| **job != second) {
            list.insert(*job, &arena);
        }
        assert_eq!(list.pop_last(), Some(last));
        list.insert(second, &arena);
        list.insert(last, &arena);
        assert!(list.contains(last, &arena));
        list.remove(last, &arena);
        assert_eq!(list.len(), RUN_JOBS);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append,
        PopFirst,
        PopLast,
        /// Take out the nth and put it back later.
        Remove(usize),
        Return,
        WalkFrom(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => Just(Step::Append),
            2 => Just(Step::PopFirst),
            4 => Just(Step::PopLast),
            4 => (0..5_000usize).prop_map(Step::Remove),
            4 => Just(Step::Return),
            1 => (0..5_000u64).prop_map(Step::WalkFrom),
        ];
        prop::collection::vec(step, 0..3_000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_lane_is_an_ordered_map(steps in steps()) {
            let (mut arena, mut lane, mut model) = (Arena::default(), WaitingList::default(), BTreeMap::new());
            let (mut next, mut out) = (0, Vec::new());
            for step in steps {
                match step {
                    Step::Append => {
                        next += 1;
                        let job = job(&mut arena, next);
                        lane.insert(job, &arena);
                        model.insert(next, job);
                    }
                    Step::PopFirst => {
                        prop_assert_eq!(lane.pop_first(), model.pop_first().map(|(_, job)| job));
                    }
                    Step::PopLast => {
                        let last = model.pop_last();
                        prop_assert_eq!(lane.pop_last(), last.map(|(_, job)| job));
                        out.extend(last);
                    }
                    Step::Remove(nth) if nth < model.len() => {
                        let (order, job) = model.iter().nth(nth).map(|(o, j)| (*o, *j)).unwrap();
                        lane.remove(job, &arena);
                        model.remove(&order);
                        out.push((order, job));
                    }
                    Step::Return if !out.is_empty() => {
                        let (order, job) = out.swap_remove(out.len() / 2);
                        lane.insert(job, &arena);
                        model.insert(order, job);
                    }
                    Step::WalkFrom(order) => {
                        let up: Vec<_> = lane.after(Some(order), &arena).collect();
                        let expected: Vec<_> = model.range(order + 1..).map(|(_, j)| *j).collect();
                        prop_assert_eq!(up, expected);
                        let down: Vec<_> = lane.before(Some(order), &arena).collect();
                        let expected: Vec<_> = model.range(..order).rev().map(|(_, j)| *j).collect();
                        prop_assert_eq!(down, expected);
                    }
                    _ => {}
                }
                prop_assert_eq!(lane.len(), model.len());
                prop_assert_eq!(lane.first(), model.values().next().copied());
                prop_assert_eq!(lane.last(), model.values().next_back().copied());
            }
            let all: Vec<_> = lane.after(None, &arena).collect();
            let positions: Vec<usize> = (0..all.len() + 1).filter(|n| n % 7 < 3).collect();
            let expected: Vec<_> = positions.iter().filter_map(|n| all.get(*n).copied()).collect();
            prop_assert_eq!(lane.at_positions(&positions), expected);
            prop_assert_eq!(all, model.into_values().collect::<Vec<_>>());
        }
    }
}
