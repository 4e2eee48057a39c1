//! Lanes without work in progress, ordered by their time: a wheel of wheels.
//!
//! A lane is in the slot of the highest digit (in base 64) in which its time differs from that of the
//! wheel. When the first slots are empty, the lanes of the next one are distributed over them, so a
//! lane moves at most once per digit: adding, removing and finding the first take constant time on
//! average. Times before that of the wheel count as its time.

use super::lane::{Lane, LaneId, LaneList, LanePosition};

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const SLOT_MASK: u64 = SLOTS as u64 - 1;
/// For all 64 bits.
const DIGITS: usize = 11;

#[derive(Clone, Debug)]
pub(super) struct Wheel {
    /// Not after the time of any lane in it.
    now: u64,
    /// Digits with lanes, and their slots with lanes.
    digits: u16,
    slots: [u64; DIGITS],
    lists: Box<[LaneList]>,
}

impl Default for Wheel {
    fn default() -> Self {
        let lists = vec![LaneList::EMPTY; DIGITS * SLOTS].into_boxed_slice();
        Self { now: 0, digits: 0, slots: [0; DIGITS], lists }
    }
}

impl Wheel {
    pub(super) const fn is_empty(&self) -> bool {
        self.digits == 0
    }

    /// Returns the time of the wheel in steps: that of the lane that was first last.
    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    /// Moves an empty wheel to a later time.
    pub(super) fn advance(&mut self, steps: u64) {
        if self.is_empty() {
            self.now = self.now.max(steps);
        }
    }

    pub(super) fn insert(&mut self, lanes: &mut [Lane], id: LaneId) {
        let lane = &mut lanes[id.index()];
        lane.raise_to(self.now);
        let place = self.place(lane.served_steps());
        lane.position = LanePosition::Wheel(place);
        let (digit, slot) = digit_and_slot(place);
        self.lists[usize::from(place)].push(lanes, id);
        self.slots[digit] |= 1 << slot;
        self.digits |= 1 << digit;
    }

    /// Removes a lane from the slot `place`, in which it is.
    pub(super) fn remove(&mut self, lanes: &mut [Lane], id: LaneId, place: u16) {
        self.lists[usize::from(place)].remove(lanes, id);
        self.note_empty(place);
    }

    /// Returns the lane with the least time; of several, the one that was added first.
    pub(super) fn first(&mut self, lanes: &mut [Lane]) -> Option<LaneId> {
        loop {
            if self.is_empty() {
                return None;
            }
            let digit = self.digits.trailing_zeros();
            let slot = u64::from(self.slots[digit as usize].trailing_zeros());
            let shift = digit * DIGIT_BITS;
            let above = self.now.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
            self.now = above.checked_shl(shift + DIGIT_BITS).unwrap_or(0) | (slot << shift);
            let place = place_of(digit as usize, slot);
            if digit == 0 {
                return self.lists[usize::from(place)].first();
            }
            self.distribute(lanes, place);
        }
    }

    /// Moves the lanes of a slot to those of lower digits, in their order.
    fn distribute(&mut self, lanes: &mut [Lane], place: u16) {
        let mut list = std::mem::replace(&mut self.lists[usize::from(place)], LaneList::EMPTY);
        self.note_empty(place);
        while let Some(id) = list.first() {
            list.remove(lanes, id);
            self.insert(lanes, id);
        }
    }

    fn note_empty(&mut self, place: u16) {
        if self.lists[usize::from(place)].first().is_some() {
            return;
        }
        let (digit, slot) = digit_and_slot(place);
        self.slots[digit] &= !(1 << slot);
        if self.slots[digit] == 0 {
            self.digits &= !(1 << digit);
        }
    }

    fn place(&self, steps: u64) -> u16 {
        let highest = (steps ^ self.now).checked_ilog2().unwrap_or(0);
        let digit = highest / DIGIT_BITS;
        place_of(digit as usize, (steps >> (digit * DIGIT_BITS)) & SLOT_MASK)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most DIGITS * SLOTS")]
const fn place_of(digit: usize, slot: u64) -> u16 {
    (digit * SLOTS) as u16 + slot as u16
}

const fn digit_and_slot(place: u16) -> (usize, usize) {
    (place as usize / SLOTS, place as usize % SLOTS)
}
