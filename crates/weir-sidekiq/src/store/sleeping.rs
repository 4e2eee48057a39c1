//! Queues whose next job may start only later, by a rate. Until then, this node does not ask Redis for their jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_jobs::model::QueueName;

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
    pub(super) fn insert(&mut self, queue: QueueName, now: Timestamp, wait: Duration) {
        // Timers and times in Redis count microseconds.
        let until = now + wait.max(Duration::from_micros(1));
        self.0.insert(queue, Sleep { since: now, until });
    }

    pub(super) fn has(&self, queue: &QueueName, now: Timestamp) -> bool {
        self.0.get(queue).is_some_and(|sleep| sleep.lasts(now))
    }

    /// Returns how long it is until the first one wakes. Forgets those that are awake.
    pub(super) fn wakes_in(&mut self, now: Timestamp) -> Option<Duration> {
        self.0.retain(|_, sleep| sleep.lasts(now));
        self.0.values().map(|sleep| sleep.until.since(now)).min()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
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
