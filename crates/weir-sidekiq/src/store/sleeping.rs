//! Queues whose next job may start only later, by a rate. Until then, this node does not ask Redis for their jobs.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_jobs::model::QueueName;

use super::store_core::StoreCore;
use super::waiting::FetchGroup;

/// How long each queue sleeps.
#[derive(Debug, Default)]
pub(super) struct SleepingQueues(BTreeMap<QueueName, Sleep>);

/// By the clock of this node.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    since: Timestamp,
    until: Timestamp,
}

impl Sleep {
    /// Returns whether it goes on. A clock that was set back ends it.
    fn lasts(&self, now: Timestamp) -> bool {
        (self.since..self.until).contains(&now)
    }
}

impl SleepingQueues {
    fn insert(&mut self, queue: QueueName, now: Timestamp, wait: Duration) {
        // Timers and times in Redis count microseconds.
        let until = now + wait.max(Duration::from_micros(1));
        self.0.insert(queue, Sleep { since: now, until });
    }

    fn has(&self, queue: &QueueName, now: Timestamp) -> bool {
        self.0.get(queue).is_some_and(|sleep| sleep.lasts(now))
    }

    /// Returns how long it is until the first one wakes. Forgets those that are awake.
    fn wakes_in(&mut self, now: Timestamp) -> Option<Duration> {
        self.0.retain(|_, sleep| sleep.lasts(now));
        self.0.values().map(|sleep| sleep.until.since(now)).min()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl StoreCore {
    /// Returns the group without the queues that sleep.
    pub(super) fn awake(&self, group: &FetchGroup) -> FetchGroup {
        let (state, now) = (self.state.borrow(), self.now());
        let is_asleep = |queue: &QueueName| state.sleeping.has(queue, now);
        let queues = match group.queues.iter().any(is_asleep) {
            true => group.queues.iter().filter(|queue| !is_asleep(queue)).cloned().collect(),
            false => Rc::clone(&group.queues),
        };
        FetchGroup { queues, fetches: group.fetches.clone() }
    }

    /// Lets the queues at these places of a group sleep. Returns whether there are any.
    pub(super) fn let_sleep(&self, group: &FetchGroup, sleeping: &[(usize, Duration)]) -> bool {
        let (mut state, now) = (self.state.borrow_mut(), self.now());
        for (place, wait) in sleeping {
            if let Some(queue) = group.queues.get(*place) {
                state.sleeping.insert(queue.clone(), now, *wait);
            }
        }
        if !sleeping.is_empty() {
            self.sleep_began.notify_one();
        }
        !sleeping.is_empty()
    }

    /// Returns how long it is until the first queue wakes.
    pub(super) fn wakes_in(&self) -> Option<Duration> {
        self.state.borrow_mut().sleeping.wakes_in(self.now())
    }
}

#[cfg(test)]
mod tests {
    use weir_jobs::settings::JobServerLimits;

    use super::*;

    #[test]
    fn a_queue_sleeps_until_its_time_or_until_the_clock_is_set_back() {
        let queue = |name: &str| QueueName::parse(name, &JobServerLimits::default()).unwrap();
        let at = Timestamp::from_millis;
        let mut sleeping = SleepingQueues::default();
        sleeping.insert(queue("a"), at(1_000), Duration::from_millis(50));
        sleeping.insert(queue("b"), at(1_000), Duration::from_millis(20));
        assert_eq!(sleeping.wakes_in(at(1_000)), Some(Duration::from_millis(20)));
        assert!(sleeping.has(&queue("b"), at(1_019)) && !sleeping.has(&queue("b"), at(1_020)));
        assert!(!sleeping.has(&queue("b"), at(999)));
        assert_eq!(sleeping.wakes_in(at(1_030)), Some(Duration::from_millis(20)));
        assert_eq!(sleeping.wakes_in(at(1_050)), None);
    }
}
