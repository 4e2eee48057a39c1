//! Lanes under a rate. A lane whose next job may not start yet sleeps: it is in no level, so no pick looks at it,
//! until [`Lanes::wake`] is called with a later time. A lane without jobs is kept until its rate has recovered.

use weir_base::clock::Timestamp;
use weir_base::token_bucket::Rate;

use super::heap::LaneHeap;
use super::lane::{Lane, LaneId, LanePosition};
use super::table::Lanes;

/// Lanes that one call wakes, so that it takes no longer than some 0.1 ms. The next call wakes more.
const WAKES_MAX: usize = 1_024;

/// If the clock is set back by more than this, all lanes under a rate are given new times.
const CLOCK_STEP: std::time::Duration = std::time::Duration::from_secs(1);

impl Lane {
    /// Counts a job that starts.
    pub(super) fn count_start(&mut self, rate: Option<Rate>, now: Timestamp) {
        if let Some(rate) = rate
            && self.bucket.take(rate, now).is_err()
        {
            // The clock was set back while the lane was awake: it sleeps from now on.
            self.bucket.limit_debt(rate, now);
        }
    }

    /// Lets it owe no more starts than its rate allows to owe.
    pub(super) fn limit_debt(&mut self, rate: Option<Rate>, now: Timestamp) {
        if let Some(rate) = rate {
            self.bucket.limit_debt(rate, now);
        }
    }
}

impl Lanes {
    /// Wakes the lanes whose next job may start by `now`.
    pub fn wake(&mut self, now: Timestamp) {
        let was_set_back = now + CLOCK_STEP < self.awake_at;
        if was_set_back {
            self.awake_at = now;
            return self.give_new_times();
        }
        self.awake_at = self.awake_at.max(now);
        let now = self.awake_at;
        for _ in 0..WAKES_MAX {
            let Some(id) = due(&self.sleeping, now) else { break };
            self.displace(id);
            self.place(id);
        }
        for _ in 0..WAKES_MAX {
            let Some(id) = due(&self.refilling, now) else { break };
            self.refill_anew(id);
        }
    }

    /// Returns when the next lane is to be woken that has jobs.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        self.sleeping.first().map(|(at, _)| Timestamp::from_micros(at))
    }

    /// Counts a start in a lane with a job in progress that [`Lanes::add_running`] has added.
    pub fn count_start(&mut self, id: LaneId, now: Timestamp) {
        let now = now.max(self.awake_at);
        if let Some(rate) = self.limits.rate(self.lanes[id.index()].owner) {
            self.change(id, |lane| lane.count_start(Some(rate), now));
        }
    }

    /// Takes back the last start in a lane, whose job was not handed out after all. Only right after the start.
    pub fn take_back_start(&mut self, id: LaneId) {
        if let Some(rate) = self.limits.rate(self.lanes[id.index()].owner) {
            self.change(id, |lane| lane.bucket.put_back(rate));
        }
    }

    /// Returns when the next job of a lane may start, unless it may now.
    pub(super) fn blocked_until(&self, id: LaneId) -> Option<Timestamp> {
        let lane = &self.lanes[id.index()];
        let at = lane.bucket.available_at(self.limits.rate(lane.owner)?, self.awake_at);
        (at > self.awake_at).then_some(at)
    }

    /// Keeps a lane without jobs as long as its starts count for its rate. Returns false if none does.
    pub(super) fn begin_refilling(&mut self, id: LaneId) -> bool {
        let lane = &self.lanes[id.index()];
        if self.limits.rate(lane.owner).is_none() {
            return false;
        }
        let full_at = lane.bucket.full_at();
        if full_at <= self.awake_at {
            return false;
        }
        self.lanes[id.index()].position = LanePosition::Refilling;
        self.refilling.insert_at(&mut self.lanes, id, full_at.as_micros());
        true
    }

    /// Decides again how long a lane without jobs is kept for its rate.
    pub(super) fn refill_anew(&mut self, id: LaneId) {
        if self.lanes[id.index()].position == LanePosition::Refilling {
            self.leave_idle(id);
            self.begin_idle(id);
        }
    }

    /// Lets no lane owe more than its rate allows to owe: neither those that sleep, nor those that will when they have jobs
    /// or room for one again.
    fn give_new_times(&mut self) {
        for index in 0..self.lanes.len() {
            let id = LaneId(u32::try_from(index).unwrap_or(u32::MAX));
            let rate = self.limits.rate(self.lanes[index].owner);
            if self.lanes[index].is_busy() {
                self.displace(id);
                self.lanes[index].limit_debt(rate, self.awake_at);
                self.place(id);
            } else {
                self.lanes[index].limit_debt(rate, self.awake_at);
                self.refill_anew(id);
            }
        }
    }
}

fn due(heap: &LaneHeap, now: Timestamp) -> Option<LaneId> {
    heap.first().filter(|(at, _)| *at <= now.as_micros()).map(|(_, id)| id)
}
