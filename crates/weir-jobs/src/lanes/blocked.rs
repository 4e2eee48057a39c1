//! Lanes whose next job waits for a shared resource. They are in no level, so no pick looks at them, until the
//! resource has room and the caller unblocks one. A change of the lane itself unblocks it as well.

use super::lane::{BlockedLanes, LaneId, LanePosition};
use super::table::Lanes;

impl Lanes {
    /// Blocks a lane that was picked, whose next job is of a class that may not start.
    pub fn block(&mut self, id: LaneId, class: u16) {
        self.displace(id);
        let place = usize::from(class);
        if place >= self.by_class.len() {
            self.by_class.resize(place + 1, BlockedLanes::EMPTY);
        }
        let lane = &mut self.lanes[id.index()];
        lane.position = LanePosition::Blocked(class);
        self.by_class[place].waiting += u64::from(lane.waiting);
        self.by_class[place].lanes.push(&mut self.lanes, id);
    }

    #[must_use]
    pub fn is_blocked(&self, id: LaneId) -> bool {
        matches!(self.lanes[id.index()].position, LanePosition::Blocked(_))
    }

    /// Lets the next pick look at a blocked lane.
    pub fn unblock(&mut self, id: LaneId) {
        self.displace(id);
        self.place(id);
    }

    /// Unblocks up to `max` lanes of a class, longest blocked first.
    pub fn unblock_some(&mut self, class: u16, max: usize) {
        for _ in 0..max {
            let lanes = self.by_class.get(usize::from(class));
            let Some(id) = lanes.and_then(|lanes| lanes.lanes.first()) else { return };
            self.unblock(id);
        }
    }

    /// Returns the classes with blocked lanes, and the number of jobs that wait in these.
    pub fn blocked_classes(&self) -> impl Iterator<Item = (u16, u64)> {
        let classes = (0..=u16::MAX).zip(&self.by_class);
        let classes = classes.filter(|(_, lanes)| lanes.lanes.first().is_some());
        classes.map(|(class, lanes)| (class, lanes.waiting))
    }

    /// Takes a lane out of its list. It must not have changed since it was blocked, apart from
    /// [`Lanes::note_waiting_blocked`].
    pub(super) fn leave_blocked(&mut self, id: LaneId, class: u16) {
        let blocked = &mut self.by_class[usize::from(class)];
        blocked.lanes.remove(&mut self.lanes, id);
        let lane = &mut self.lanes[id.index()];
        blocked.waiting -= u64::from(lane.waiting);
        lane.position = LanePosition::Nowhere;
    }

    /// Counts a job more or less that waits in a lane, which remains where it is.
    pub(super) fn note_waiting_blocked(&mut self, id: LaneId, change: i64) {
        if let LanePosition::Blocked(class) = self.lanes[id.index()].position {
            let waiting = &mut self.by_class[usize::from(class)].waiting;
            *waiting = waiting.saturating_add_signed(change);
        }
    }
}
