//! Lanes of one level, or that wait for a time, in its order: a binary heap in which each lane knows its place, so that it can
//! be removed. Mostly, adding and removing one moves few others.

use super::lane::{Lane, LaneId};

#[derive(Clone, Debug, Default)]
pub(super) struct LaneHeap {
    /// Time, and the lane. An entry is not before that at half its place.
    entries: Vec<(u64, LaneId)>,
}

impl LaneHeap {
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the time and the lane of the first one.
    pub(super) fn first(&self) -> Option<(u64, LaneId)> {
        self.entries.first().copied()
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Inserts a lane by its time in steps.
    pub(super) fn insert(&mut self, lanes: &mut [Lane], id: LaneId) {
        self.insert_at(lanes, id, lanes[id.index()].served_steps());
    }

    pub(super) fn insert_at(&mut self, lanes: &mut [Lane], id: LaneId, time: u64) {
        let entry = (time, id);
        self.entries.push(entry);
        self.move_up(lanes, self.entries.len() - 1, entry);
    }

    /// Removes a lane that is in the heap.
    pub(super) fn remove(&mut self, lanes: &mut [Lane], id: LaneId) {
        let place = lanes[id.index()].heap_place as usize;
        let Some(last) = self.entries.pop() else { return };
        if place < self.entries.len() {
            self.move_down(lanes, place, last);
        }
    }

    /// Puts an entry at `place`, or above it.
    fn move_up(&mut self, lanes: &mut [Lane], mut place: usize, entry: (u64, LaneId)) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.put(lanes, place, self.entries[parent]);
            place = parent;
        }
        self.put(lanes, place, entry);
    }

    /// Puts an entry at `place`, below it or above it.
    fn move_down(&mut self, lanes: &mut [Lane], mut place: usize, entry: (u64, LaneId)) {
        loop {
            let left = place * 2 + 1;
            let children = self.entries.get(left..self.entries.len().min(left + 2));
            let least = children.and_then(|it| it.iter().min()).copied();
            let Some(least) = least.filter(|least| *least < entry) else { break };
            let child = left + usize::from(self.entries[left] != least);
            self.put(lanes, place, least);
            place = child;
        }
        self.move_up(lanes, place, entry);
    }

    fn put(&mut self, lanes: &mut [Lane], place: usize, entry: (u64, LaneId)) {
        self.entries[place] = entry;
        lanes[entry.1.index()].heap_place = u32::try_from(place).unwrap_or(u32::MAX);
    }
}
