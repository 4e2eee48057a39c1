//! Jobs of queues and sets that were cleared. They are no longer visible, but each still has its
//! arena entry, its entry in the index and its features, and is still counted. They are forgotten in
//! slices, so that clearing a queue of millions of jobs does not delay other work.

use super::arena::JobIndex;
use super::state::TimeSet;
use super::waiting_list::WaitingList;

/// The jobs of cleared queues and sets.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    lanes: Vec<WaitingList>,
    sets: Vec<TimeSet>,
}

impl Cleared {
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty() && self.sets.is_empty()
    }

    pub(crate) fn add_lane(&mut self, lane: WaitingList) {
        if lane.len() > 0 {
            self.lanes.push(lane);
        }
    }

    pub(crate) fn add_set(&mut self, set: TimeSet) {
        if !set.is_empty() {
            self.sets.push(set);
        }
    }

    /// Returns the next job to forget: the oldest first, so that the oldest segments become free
    /// first.
    pub(crate) fn first(&self) -> Option<JobIndex> {
        match self.lanes.last() {
            Some(lane) => lane.first(),
            None => self.sets.last()?.first().map(|(_, job)| *job),
        }
    }

    /// Removes and returns the job that [`Cleared::first`] returns.
    pub(crate) fn pop(&mut self) -> Option<JobIndex> {
        if let Some(lane) = self.lanes.last_mut() {
            let job = lane.pop_first();
            if lane.len() == 0 {
                self.lanes.pop();
            }
            return job;
        }
        let set = self.sets.last_mut()?;
        let job = set.pop_first().map(|(_, job)| job);
        if set.is_empty() {
            self.sets.pop();
        }
        job
    }
}
