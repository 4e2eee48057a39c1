//! Which processes may be started within a limit of database connections. Pure.
//!
//! A process counts from its start until its end was noticed. No start exceeds the limit, also
//! while old and new processes of a group run beside each other.

/// The connections of all processes, and their limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionRoom {
    /// None: unlimited.
    max: Option<u64>,
    used: u64,
    /// Connections of processes that are to be started and do not fit now.
    awaited: u64,
}

/// How a process may be replaced now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplacementOrder {
    /// Its successor may run beside it.
    StartFirst,
    /// It has to end before its successor starts.
    StopFirst,
    /// Other processes must end before.
    Wait,
}

impl ConnectionRoom {
    pub(crate) fn new(max: Option<u32>, used: u64) -> Self {
        Self { max: max.map(u64::from), used, awaited: 0 }
    }

    /// Returns whether a process with so many connections may be started. One without connections
    /// never waits.
    pub(crate) fn fits(&self, connections: u32) -> bool {
        let after = self.used.saturating_add(connections.into());
        connections == 0 || self.max.is_none_or(|max| after <= max)
    }

    /// Reserves the connections of a process that is about to be started. False: they don't fit.
    pub(crate) fn take(&mut self, connections: u32) -> bool {
        let fits = self.fits(connections);
        let sum = if fits { &mut self.used } else { &mut self.awaited };
        *sum = sum.saturating_add(connections.into());
        fits
    }

    /// Returns how a process with `old` connections may be replaced by one with `new` ones. A
    /// successor leaves what others wait for, except in the place of a process that has no fewer
    /// connections: otherwise both could wait for each other.
    pub(crate) fn order(&self, old: u32, new: u32) -> ReplacementOrder {
        let (old, new) = (u64::from(old), u64::from(new));
        let Some(max) = self.max else { return ReplacementOrder::StartFirst };
        let needed = self.used.saturating_add(self.awaited).saturating_add(new);
        if new == 0 || needed <= max {
            ReplacementOrder::StartFirst
        } else if new <= old || needed.saturating_sub(old) <= max {
            ReplacementOrder::StopFirst
        } else {
            ReplacementOrder::Wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_beyond_the_limit_waits() {
        let mut room = ConnectionRoom::new(Some(100), 70);
        assert!(room.take(30));
        assert!(!room.take(1));
        assert!(room.take(0), "a process without connections never waits");
        assert!(ConnectionRoom::new(None, u64::MAX).take(1));
    }

    #[test]
    fn a_process_stops_first_only_where_its_successor_does_not_fit_beside_it() {
        for (used, old, new, expected) in [
            (50, 25, 50, ReplacementOrder::StartFirst),
            (51, 25, 50, ReplacementOrder::StopFirst),
            (75, 25, 50, ReplacementOrder::StopFirst),
            (76, 25, 50, ReplacementOrder::Wait),
            (100, 50, 25, ReplacementOrder::StopFirst),
            (120, 50, 50, ReplacementOrder::StopFirst),
            (120, 50, 0, ReplacementOrder::StartFirst),
        ] {
            let room = ConnectionRoom::new(Some(100), used);
            assert_eq!(room.order(old, new), expected, "{used} {old} {new}");
        }
        assert_eq!(ConnectionRoom::new(None, 120).order(1, 50), ReplacementOrder::StartFirst);
    }

    #[test]
    fn a_successor_leaves_what_others_wait_for() {
        let mut room = ConnectionRoom::new(Some(100), 80);
        assert!(!room.take(30));
        assert_eq!(room.order(5, 10), ReplacementOrder::Wait);
        assert_eq!(room.order(10, 10), ReplacementOrder::StopFirst);
    }
}
