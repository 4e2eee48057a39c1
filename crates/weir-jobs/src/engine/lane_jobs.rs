//! The waiting jobs of each lane, linked in their order: 16 bytes per job, which only jobs in queues
//! with lanes have.

use super::arena::{Arena, CHUNK_ENTRIES, JobIndex};
use crate::lanes::LaneId;
use crate::resources::TypeClass;

const NO_LANE: LaneId = LaneId(u32::MAX);
const NO_JOB: JobIndex = JobIndex(u32::MAX);

/// The lane of a job and its neighbours there.
#[derive(Clone, Copy, Debug)]
struct LaneLink {
    lane: LaneId,
    previous: JobIndex,
    next: JobIndex,
    class: TypeClass,
}

impl LaneLink {
    const NONE: Self =
        Self { lane: NO_LANE, previous: NO_JOB, next: NO_JOB, class: TypeClass::NONE };
}

#[derive(Debug)]
struct LinkChunk {
    links: Box<[LaneLink]>,
    /// Number of jobs with a lane.
    used: u16,
}

/// The links of all jobs, by index. Chunks without any take no memory.
#[derive(Debug, Default)]
pub(crate) struct LaneLinks {
    chunks: Vec<Option<LinkChunk>>,
    /// The last chunk that became empty, so that a queue that alternates between empty and not
    /// allocates nothing.
    spare: Option<LinkChunk>,
}

impl LaneLinks {
    /// Returns the class of a job that is in a lane.
    pub(crate) fn class(&self, job: JobIndex) -> TypeClass {
        self.get(job).class
    }

    fn get(&self, job: JobIndex) -> LaneLink {
        let (number, slot) = place_of(job);
        let chunk = self.chunks.get(number).and_then(Option::as_ref);
        chunk.map_or(LaneLink::NONE, |chunk| chunk.links[slot])
    }

    fn set(&mut self, job: JobIndex, link: LaneLink) {
        let (number, slot) = place_of(job);
        if number >= self.chunks.len() {
            self.chunks.resize_with(number + 1, || None);
        }
        let spare = &mut self.spare;
        let chunk =
            self.chunks[number].get_or_insert_with(|| spare.take().unwrap_or_else(LinkChunk::new));
        let old = std::mem::replace(&mut chunk.links[slot], link);
        chunk.used += u16::from(old.lane == NO_LANE);
    }

    fn change(&mut self, job: JobIndex, change: impl FnOnce(&mut LaneLink)) {
        let (number, slot) = place_of(job);
        if let Some(chunk) = self.chunks.get_mut(number).and_then(Option::as_mut) {
            change(&mut chunk.links[slot]);
        }
    }

    /// Forgets the lane of a job that is in no list. Needed before its index is used for another job.
    pub(crate) fn clear(&mut self, job: JobIndex) {
        let (number, slot) = place_of(job);
        let Some(chunk) = self.chunks.get_mut(number).and_then(Option::as_mut) else { return };
        let old = std::mem::replace(&mut chunk.links[slot], LaneLink::NONE);
        chunk.used -= u16::from(old.lane != NO_LANE);
        if chunk.used == 0 {
            self.spare = self.chunks[number].take();
        }
    }
}

impl LinkChunk {
    fn new() -> Self {
        Self { links: vec![LaneLink::NONE; CHUNK_ENTRIES].into_boxed_slice(), used: 0 }
    }
}

const fn place_of(job: JobIndex) -> (usize, usize) {
    let index = job.0 as usize;
    (index / CHUNK_ENTRIES, index % CHUNK_ENTRIES)
}

/// The first and the last waiting job of a lane.
#[derive(Clone, Copy, Debug)]
struct LaneEnds {
    first: JobIndex,
    last: JobIndex,
}

impl LaneEnds {
    const EMPTY: Self = Self { first: NO_JOB, last: NO_JOB };
}

/// The lists of a queue's lanes.
#[derive(Debug)]
pub(crate) struct LaneJobs {
    ends: Vec<LaneEnds>,
    /// The job that was inserted before others last: those of a worker that vanished return in their
    /// order, so the next one of the lane mostly belongs after it.
    returned: JobIndex,
    /// Jobs that were passed to find places.
    #[cfg(test)]
    steps: usize,
}

impl Default for LaneJobs {
    fn default() -> Self {
        Self {
            ends: Vec::new(),
            returned: NO_JOB,
            #[cfg(test)]
            steps: 0,
        }
    }
}

impl LaneJobs {
    /// Returns the job of a lane that has waited longest.
    pub(crate) fn first(&self, lane: LaneId) -> Option<JobIndex> {
        Some(self.ends(lane).first).filter(|job| *job != NO_JOB)
    }

    /// Returns the lanes with jobs.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = LaneId> {
        let lanes = (0..).zip(&self.ends).filter(|(_, ends)| ends.first != NO_JOB);
        lanes.map(|(number, _)| LaneId(number))
    }

    /// Returns the newest job of a lane.
    pub(crate) fn last(&self, lane: LaneId) -> Option<JobIndex> {
        Some(self.ends(lane).last).filter(|job| *job != NO_JOB)
    }

    /// Inserts a job by its order: at the end, at the beginning or after the last one that was returned
    /// in O(1). Otherwise in steps that its distance from the nearest of them limits.
    pub(crate) fn insert(
        &mut self,
        lane: LaneId,
        job: JobIndex,
        class: TypeClass,
        links: &mut LaneLinks,
        arena: &Arena,
    ) {
        let order = arena.get(job).order;
        let is_before = |other: JobIndex| other != NO_JOB && arena.get(other).order < order;
        let LaneEnds { first, last } = self.ends(lane);
        let previous = if last == NO_JOB || is_before(last) {
            last
        } else {
            let mut previous = if is_before(first) { first } else { NO_JOB };
            let hint = self.returned;
            let is_hint_valid = hint != NO_JOB
                && links.get(hint).lane == lane
                && arena.lookup(hint).is_some_and(|entry| entry.order < order);
            if previous != NO_JOB && is_hint_valid {
                previous = hint;
            }
            // From both ends: the newest job of a lane returns as often as the oldest.
            let mut next = last;
            while previous != NO_JOB {
                #[cfg(test)]
                {
                    self.steps += 1;
                }
                let after = links.get(previous).next;
                if !is_before(after) {
                    break;
                }
                previous = after;
                let before = links.get(next).previous;
                if is_before(before) {
                    previous = before;
                    break;
                }
                next = before;
            }
            self.returned = job;
            previous
        };
        self.insert_after(previous, lane, job, class, links);
    }

    fn insert_after(
        &mut self,
        previous: JobIndex,
        lane: LaneId,
        job: JobIndex,
        class: TypeClass,
        links: &mut LaneLinks,
    ) {
        let ends = self.ends_mut(lane);
        let next = match previous {
            NO_JOB => std::mem::replace(&mut ends.first, job),
            _ => links.get(previous).next,
        };
        if next == NO_JOB {
            ends.last = job;
        }
        links.change(previous, |link| link.next = job);
        links.change(next, |link| link.previous = job);
        links.set(job, LaneLink { lane, previous, next, class });
    }

    /// Returns the lane of a job that is in a list.
    pub(crate) fn lane(job: JobIndex, links: &LaneLinks) -> LaneId {
        links.get(job).lane
    }

    /// Removes a job that is in a list. Returns its lane.
    pub(crate) fn remove(&mut self, job: JobIndex, links: &mut LaneLinks) -> LaneId {
        let LaneLink { lane, previous, next, .. } = links.get(job);
        let ends = self.ends_mut(lane);
        if ends.first == job {
            ends.first = next;
        }
        if ends.last == job {
            ends.last = previous;
        }
        links.change(previous, |link| link.next = next);
        links.change(next, |link| link.previous = previous);
        links.clear(job);
        lane
    }

    /// Forgets all lists. The links of the jobs remain until they are cleared.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn ends(&self, lane: LaneId) -> LaneEnds {
        self.ends.get(lane.0 as usize).copied().unwrap_or(LaneEnds::EMPTY)
    }

    fn ends_mut(&mut self, lane: LaneId) -> &mut LaneEnds {
        let index = lane.0 as usize;
        if index >= self.ends.len() {
            self.ends.resize(index + 1, LaneEnds::EMPTY);
        }
        &mut self.ends[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::arena::{ArenaEntry, EntryState};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use weir_log::RecordPosition;

    fn entry(order: u64) -> ArenaEntry {
        ArenaEntry {
            position: RecordPosition { segment: 0, offset: 0 },
            order,
            hash: 0,
            queue: 0,
            rest: EntryState::Waiting,
            indexed: false,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append(u32),
        /// Take out the nth and put it back later.
        Remove(usize),
        Return(usize),
        /// Take out the nth for good.
        Delete(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0..3_u32).prop_map(Step::Append),
            4 => any::<usize>().prop_map(Step::Remove),
            4 => any::<usize>().prop_map(Step::Return),
            2 => any::<usize>().prop_map(Step::Delete),
        ];
        prop::collection::vec(step, 0..600)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn each_lane_is_an_ordered_map(steps in steps()) {
            let (mut arena, mut links, mut jobs) =
                (Arena::default(), LaneLinks::default(), LaneJobs::default());
            let mut model = BTreeMap::<(u32, u64), JobIndex>::new();
            let (mut next, mut out) = (0, Vec::new());
            let nth = |model: &BTreeMap<(u32, u64), JobIndex>, nth: usize| {
                model.iter().nth(nth % model.len().max(1)).map(|(key, job)| (*key, *job))
            };
            for step in steps {
                match step {
                    Step::Append(lane) => {
                        next += 1;
                        let job = arena.insert(entry(next));
                        jobs.insert(LaneId(lane), job, TypeClass::NONE, &mut links, &arena);
                        model.insert((lane, next), job);
                    }
                    Step::Remove(place) | Step::Delete(place) => {
                        let Some((key, job)) = nth(&model, place) else { continue };
                        prop_assert_eq!(jobs.remove(job, &mut links), LaneId(key.0));
                        model.remove(&key);
                        if matches!(step, Step::Delete(_)) {
                            arena.remove(job);
                        } else {
                            out.push((key, job));
                        }
                    }
                    Step::Return(place) if !out.is_empty() => {
                        let (key, job) = out.swap_remove(place % out.len());
                        jobs.insert(LaneId(key.0), job, TypeClass::NONE, &mut links, &arena);
                        model.insert(key, job);
                    }
                    Step::Return(_) => {}
                }
                for lane in 0..3 {
                    let expected: Vec<JobIndex> =
                        model.range((lane, 0)..(lane + 1, 0)).map(|(_, job)| *job).collect();
                    let mut walked = Vec::new();
                    let mut at = jobs.first(LaneId(lane));
                    while let Some(job) = at {
                        walked.push(job);
                        at = Some(links.get(job).next).filter(|job| *job != NO_JOB);
                    }
                    prop_assert_eq!(&walked, &expected);
                    prop_assert_eq!(jobs.last(LaneId(lane)), expected.last().copied());
                }
            }
            let used: usize = links.chunks.iter().flatten().map(|chunk| usize::from(chunk.used)).sum();
            prop_assert_eq!(used, model.len());
        }
    }

    /// A fresh lane serves the newest jobs, some of which return, also in another order.
    #[test]
    fn a_job_near_an_end_of_its_lane_returns_in_few_steps() {
        const JOBS: u64 = 100_000;
        let (mut arena, mut links, mut jobs) =
            (Arena::default(), LaneLinks::default(), LaneJobs::default());
        let all: Vec<JobIndex> = (0..JOBS).map(|order| arena.insert(entry(order))).collect();
        for job in &all {
            jobs.insert(LaneId(0), *job, TypeClass::NONE, &mut links, &arena);
        }
        let near_ends = [1, 2, 5, all.len() - 6, all.len() - 3, all.len() - 2];
        for place in near_ends.into_iter().chain(near_ends.into_iter().rev()) {
            jobs.remove(all[place], &mut links);
            jobs.insert(LaneId(0), all[place], TypeClass::NONE, &mut links, &arena);
        }
        assert!(jobs.steps < 100, "{} steps", jobs.steps);
    }

    #[test]
    fn the_memory_of_jobs_without_a_lane_is_returned() {
        let (mut arena, mut links, mut jobs) =
            (Arena::default(), LaneLinks::default(), LaneJobs::default());
        let all: Vec<JobIndex> = (0..5_000).map(|order| arena.insert(entry(order))).collect();
        for job in &all {
            jobs.insert(LaneId(0), *job, TypeClass::NONE, &mut links, &arena);
        }
        for job in &all {
            jobs.remove(*job, &mut links);
        }
        assert_eq!(links.chunks.iter().flatten().count(), 0);
    }
}
