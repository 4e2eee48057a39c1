//! The lanes that have jobs waiting, by level: work in progress divided by weight, rounded down.
//!
//! Almost all lanes of a queue with many tenants have nothing in progress: they are in the wheel. A
//! higher level has at most as many lanes as there are jobs in progress, so a heap is fast enough.

use super::heap::LaneHeap;
use super::lane::{Lane, LaneId, LanePosition};
use super::wheel::Wheel;

/// Above this level, only time decides. No worker fleet is so large that it matters.
pub(super) const LEVEL_MAX: u32 = 4_095;

const WORD_BITS: usize = 64;
const WORDS: usize = (LEVEL_MAX as usize + 1) / WORD_BITS;

#[derive(Clone, Debug)]
pub(super) struct Levels {
    /// Level 0.
    wheel: Wheel,
    /// The others, by number; as many as were needed.
    heaps: Vec<LaneHeap>,
    /// The heaps with lanes, and the words of these bits that are not 0.
    occupied: [u64; WORDS],
    words: u64,
}

impl Default for Levels {
    fn default() -> Self {
        Self { wheel: Wheel::default(), heaps: Vec::new(), occupied: [0; WORDS], words: 0 }
    }
}

fn level_of(lane: &Lane) -> u32 {
    (lane.running / u32::from(lane.weight)).min(LEVEL_MAX)
}

impl Levels {
    /// Returns the time in steps of the lane that was served last.
    pub(super) const fn now(&self) -> u64 {
        self.wheel.now()
    }

    /// Returns the lowest level that has lanes.
    pub(super) fn lowest(&self) -> Option<u32> {
        if !self.wheel.is_empty() {
            return Some(0);
        }
        if self.words == 0 {
            return None;
        }
        let word = self.words.trailing_zeros();
        Some(word * u64::BITS + self.occupied[word as usize].trailing_zeros())
    }

    /// Returns the least served lane: the one with the least time of the lowest level. Its time is that
    /// from which the others count.
    pub(super) fn first(&mut self, lanes: &mut [Lane]) -> Option<LaneId> {
        let level = self.lowest()?;
        if level == 0 {
            return self.wheel.first(lanes);
        }
        let (steps, id) = self.heaps[level as usize].first()?;
        self.wheel.advance(steps);
        Some(id)
    }

    pub(super) fn insert(&mut self, lanes: &mut [Lane], id: LaneId) {
        let level = level_of(&lanes[id.index()]);
        if level == 0 {
            return self.wheel.insert(lanes, id);
        }
        let place = level as usize;
        if place >= self.heaps.len() {
            self.heaps.resize_with(place + 1, LaneHeap::default);
        }
        lanes[id.index()].position = LanePosition::Level;
        self.heaps[place].insert(lanes, id);
        self.occupied[place / WORD_BITS] |= 1 << (place % WORD_BITS);
        self.words |= 1 << (place / WORD_BITS);
    }

    /// Removes a lane, if it is there. Its work in progress must not have changed since it was added.
    pub(super) fn remove(&mut self, lanes: &mut [Lane], id: LaneId) {
        let lane = &mut lanes[id.index()];
        match std::mem::replace(&mut lane.position, LanePosition::Nowhere) {
            LanePosition::Wheel(place) => self.wheel.remove(lanes, id, place),
            LanePosition::Level => {
                let place = level_of(lane) as usize;
                let heap = &mut self.heaps[place];
                heap.remove(lanes, id);
                if heap.is_empty() {
                    self.occupied[place / WORD_BITS] &= !(1 << (place % WORD_BITS));
                    if self.occupied[place / WORD_BITS] == 0 {
                        self.words &= !(1 << (place / WORD_BITS));
                    }
                }
            }
            other => lane.position = other,
        }
    }
}
