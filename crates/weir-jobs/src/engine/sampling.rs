//! Draws jobs of a queue or set uniformly at random.

use weir_log::Disk;

use super::arena::{EntryState, JobIndex};
use super::core::Engine;
use super::look::WalkStop;
use crate::model::{JobLocation, SetName};

/// A set of up to this many jobs is walked through to find those that were drawn. More would delay other work.
const SET_WALK_JOBS: usize = if cfg!(test) { 100 } else { 10_000 };

/// Entries of the arena that one call examines to find jobs of a larger set: a random read of memory each.
const PROBES_MAX: usize = 4_096;

impl<D: Disk> Engine<D> {
    /// Draws up to `count` jobs, each uniformly and independently of the others. May draw fewer of a set
    /// that has few of all jobs.
    pub(crate) fn draw(&mut self, place: &JobLocation, count: usize) -> Vec<WalkStop> {
        let jobs = match place {
            JobLocation::Queue(name) => self.draw_of_queue(name.as_str(), count),
            JobLocation::Set(set) if self.state.set(*set).len() <= SET_WALK_JOBS => {
                self.draw_of_small_set(*set, count)
            }
            JobLocation::Set(set) => self.draw_of_large_set(*set, count),
        };
        jobs.into_iter().map(|job| self.stop(job)).collect()
    }

    fn draw_of_queue(&mut self, name: &str, count: usize) -> Vec<JobIndex> {
        let Some(number) = self.state.queues.number(name) else { return Vec::new() };
        let jobs = self.state.queues.get(number).lane.len();
        let positions = self.positions(jobs, count);
        self.state.queues.get(number).lane.at_positions(&positions)
    }

    fn draw_of_small_set(&mut self, set: SetName, count: usize) -> Vec<JobIndex> {
        let positions = self.positions(self.state.set(set).len(), count);
        let (mut jobs, mut next) = (self.state.set(set).iter(), 0);
        let mut last = None;
        let mut found = Vec::with_capacity(positions.len());
        for position in positions {
            if position >= next {
                last = jobs.nth(position - next).map(|(_, job)| *job);
                next = position + 1;
            }
            found.extend(last);
        }
        found
    }

    /// Draws entries of the arena and rejects those that are not in the set: each job of the set is as
    /// likely as any other, at no cost of memory.
    fn draw_of_large_set(&mut self, set: SetName, count: usize) -> Vec<JobIndex> {
        let (end, wanted) = (self.state.arena.index_end(), EntryState::in_set(set));
        let mut found = Vec::with_capacity(count);
        for _ in 0..PROBES_MAX {
            if found.len() >= count {
                break;
            }
            let job = JobIndex(self.random.u32(..end));
            let entry = self.state.arena.lookup(job);
            if entry.is_some_and(|entry| entry.rest == wanted) && !self.state.is_cleared(job) {
                found.push(job);
            }
        }
        found
    }

    /// Returns `count` positions below `jobs`, sorted.
    fn positions(&mut self, jobs: usize, count: usize) -> Vec<usize> {
        if jobs == 0 {
            return Vec::new();
        }
        let mut positions: Vec<usize> = (0..count).map(|_| self.random.usize(..jobs)).collect();
        positions.sort_unstable();
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocation::Allocation;
    use crate::engine::core::EngineError;
    use crate::job::JobBatch;
    use crate::metrics::JobsMetrics;
    use crate::settings::{JobServerLimits, JobServerSettings};
    use std::collections::BTreeSet;
    use weir_base::clock::Timestamp;
    use weir_log::SimulatedDisk;

    const NOW: Timestamp = Timestamp::from_micros(1_795_202_902_000_000);

    fn push(engine: &mut Engine<SimulatedDisk>, jid: &str, members: &str) {
        let json = format!(r#"{{"jid":"{jid}","jobtype":"T","args":[]{members}}}"#);
        let mut batch = JobBatch::new();
        let job = batch.parse_one(json.as_bytes(), NOW, &JobServerLimits::default()).unwrap();
        while let Err(error) = engine.store(&job, NOW) {
            assert_eq!(error, EngineError::Behind);
            engine.journal.log.syncer().sync().unwrap();
        }
    }

    #[test]
    fn a_call_for_a_set_looks_at_few_entries_and_finds_only_its_jobs() {
        let (settings, metrics) = (JobServerSettings::default(), JobsMetrics::detached());
        let random = fastrand::Rng::with_seed(3);
        let (mut engine, _) =
            Engine::open(SimulatedDisk::new(3), &settings, &Allocation::default(), metrics, random)
                .unwrap();
        let set = SetName::Scheduled;
        for n in 0..SET_WALK_JOBS + 20 {
            push(&mut engine, &format!("later-{n:05}"), r#","at":"2999-01-01T00:00:00Z""#);
        }
        for n in 0..20_000 {
            push(&mut engine, &format!("job-{n:08}"), "");
        }
        let (place, mut found, mut calls) = (JobLocation::Set(set), BTreeSet::new(), 0);
        while found.len() < SET_WALK_JOBS + 20 {
            let drawn = engine.draw(&place, 250);
            // One of 168 entries is in the set, so that a call finds 24 jobs on average.
            assert!(drawn.len() < 100, "{}: probes are not limited", drawn.len());
            assert!(drawn.iter().all(|stop| stop.rest == EntryState::Scheduled));
            found.extend(drawn.into_iter().map(|stop| stop.job));
            calls += 1;
            assert!(calls < 1_000, "some jobs are never drawn");
        }
        engine.journal.log.syncer().sync().unwrap();
        engine.clear_set(set).unwrap();
        assert!(engine.draw(&place, 250).is_empty());
        for n in 0..SET_WALK_JOBS + 1 {
            push(&mut engine, &format!("again-{n:05}"), r#","at":"2999-01-01T00:00:00Z""#);
        }
        assert!(!engine.state.cleared.is_empty(), "cleared jobs still have their entries");
        let drawn = (0..50).flat_map(|_| engine.draw(&place, 250));
        let drawn: BTreeSet<_> = drawn.map(|stop| stop.job).collect();
        assert!((50..=SET_WALK_JOBS + 1).contains(&drawn.len()), "{}", drawn.len());
    }
}
