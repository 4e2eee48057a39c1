//! Tenants that a limit holds back, for people: which they are, by what, and until when.

use std::cmp::Reverse;

use weir_base::clock::Timestamp;

use super::lane::{Lane, LaneId, LaneOwner, LanePosition, UNLIMITED};
use super::table::Lanes;

/// The kind of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// As many jobs are in progress as may be.
    Concurrency,
    /// The next job may not start yet.
    Rate,
    /// A shared resource has no room.
    Resource,
}

/// A lane with jobs that a limit holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedLane {
    pub id: LaneId,
    /// Several tenants share it.
    pub is_shared: bool,
    pub waiting: u32,
    pub running: u32,
    pub running_max: Option<u32>,
    pub blocked_by: LimitKind,
    /// When the next job may start by the rate of the tenant, if that is later than now.
    pub next_start: Option<Timestamp>,
}

impl Lane {
    /// Returns what holds back its jobs. It must be where it belongs.
    fn blocked_by(&self) -> Option<LimitKind> {
        match self.position {
            _ if self.waiting == 0 => None,
            _ if self.is_full() => Some(LimitKind::Concurrency),
            LanePosition::Sleeping => Some(LimitKind::Rate),
            LanePosition::Blocked(_) => Some(LimitKind::Resource),
            _ => None,
        }
    }
}

impl Lanes {
    /// Returns the lanes with the most jobs that a limit holds back, up to `max`. This looks at all lanes: some
    /// nanoseconds each.
    #[must_use]
    pub fn limited(&self, max: usize) -> Vec<LimitedLane> {
        if max == 0 {
            return Vec::new();
        }
        let lanes = (0..).map(LaneId).zip(&self.lanes);
        let mut limited: Vec<(LaneId, LimitKind, u32)> =
            lanes.filter_map(|(id, lane)| Some((id, lane.blocked_by()?, lane.waiting))).collect();
        let by_jobs = |(id, _, waiting): &(LaneId, LimitKind, u32)| (Reverse(*waiting), *id);
        if limited.len() > max {
            limited.select_nth_unstable_by_key(max - 1, by_jobs);
        }
        limited.truncate(max);
        limited.sort_unstable_by_key(by_jobs);
        limited.into_iter().map(|(id, blocked_by, _)| self.limited_lane(id, blocked_by)).collect()
    }

    fn limited_lane(&self, id: LaneId, blocked_by: LimitKind) -> LimitedLane {
        let lane = &self.lanes[id.index()];
        LimitedLane {
            id,
            is_shared: matches!(lane.owner, LaneOwner::Shared(_)),
            waiting: lane.waiting,
            running: lane.running,
            running_max: Some(lane.running_max).filter(|most| *most < UNLIMITED),
            blocked_by,
            next_start: self.blocked_until(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_base::token_bucket::Rate;

    use super::*;
    use crate::lanes::{LaneLimits, Room, TenantKey};

    #[test]
    fn the_tenants_with_the_most_jobs_held_back_are_listed() {
        let key = |name: &str| TenantKey::of(Some(name), 1);
        let mut lanes = Lanes::new(100);
        let rate = Rate::new(1, Duration::from_secs(60));
        let of_slow = LaneLimits { rate: Some(rate), ..LaneLimits::default() };
        let one = LaneLimits { concurrency: Some(1), ..LaneLimits::default() };
        lanes.set_limits(LaneLimits::default(), [(key("slow"), of_slow), (key("one"), one)]);
        let now = Timestamp::from_millis(5_000);
        lanes.wake(now);
        for (name, jobs) in [("slow", 3), ("one", 5), ("free", 9)] {
            for _ in 0..jobs {
                lanes.add(key(name));
            }
        }
        assert_eq!(lanes.limited(9), [], "none has started");
        for _ in 0..3 {
            let lane = lanes.pick(Room::UNLIMITED).unwrap();
            lanes.start(lane, now);
        }
        let limited = lanes.limited(9);
        let shown = |lane: &LimitedLane| {
            (lane.blocked_by, lane.waiting, lane.running, lane.running_max, lane.next_start)
        };
        let shown: Vec<_> = limited.iter().map(shown).collect();
        let next = Some(now + Duration::from_secs(60));
        let expected =
            [(LimitKind::Concurrency, 4, 1, Some(1), None), (LimitKind::Rate, 2, 1, None, next)];
        assert_eq!(shown, expected);
        assert_eq!(lanes.limited(1), limited[..1]);
        assert_eq!(lanes.limited(0), []);
        let counts = lanes.counts();
        assert_eq!((counts.full, counts.sleeping), (1, 1));
        lanes.end(limited[0].id, Duration::ZERO);
        assert_eq!(lanes.counts().full, 0);
    }
}
