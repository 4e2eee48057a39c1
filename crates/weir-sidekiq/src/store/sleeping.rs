//! Queues whose next job may start only later, by a rate. Until then, this node does not ask Redis for their jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_jobs::model::QueueName;

/// Another node may flush the jobs, or an operator set the rates anew, so a queue is asked again after this time.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// How long each queue sleeps.
#[derive(Debug, Default)]
pub(super) struct SleepingQueues {
    asleep: BTreeMap<QueueName, Sleep>,
    /// Queues that are awake, and when a blocked job of theirs may start.
    blocked: BTreeMap<QueueName, Sleep>,
}

/// By the clock of this node.
#[derive(Clone, Copy, Debug)]
struct Sleep {
    since: Timestamp,
    until: Timestamp,
}

impl Sleep {
    fn new(now: Timestamp, wait: Duration) -> Self {
        // Timers and times in Redis count microseconds.
        Self { since: now, until: now + wait.clamp(Duration::from_micros(1), SLEEP_MAX) }
    }

    /// Returns whether it goes on. A clock that was set back ends it.
    fn lasts(&self, now: Timestamp) -> bool {
        (self.since..self.until).contains(&now)
    }
}

impl SleepingQueues {
    pub(super) fn insert(&mut self, queue: QueueName, now: Timestamp, wait: Duration) {
        self.asleep.insert(queue, Sleep::new(now, wait));
    }

    /// Notes when a blocked job may start. The queue is awake meanwhile.
    pub(super) fn insert_blocked(&mut self, queue: QueueName, now: Timestamp, wait: Duration) {
        self.blocked.insert(queue, Sleep::new(now, wait));
    }

    pub(super) fn has(&self, queue: &QueueName, now: Timestamp) -> bool {
        self.asleep.get(queue).is_some_and(|sleep| sleep.lasts(now))
    }

    /// Returns how long it is until the first one wakes. Forgets those that are awake.
    pub(super) fn wakes_in(&mut self, now: Timestamp) -> Option<Duration> {
        for sleeps in [&mut self.asleep, &mut self.blocked] {
            sleeps.retain(|_, sleep| sleep.lasts(now));
        }
        let all = self.asleep.values().chain(self.blocked.values());
        all.map(|sleep| sleep.until.since(now)).min()
    }

    pub(super) fn clear(&mut self) {
        self.asleep.clear();
        self.blocked.clear();
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
        sleeping.insert_blocked(queue("a"), at(1_050), Duration::from_millis(5));
        assert!(!sleeping.has(&queue("a"), at(1_050)));
        assert_eq!(sleeping.wakes_in(at(1_050)), Some(Duration::from_millis(5)));
    }
}
