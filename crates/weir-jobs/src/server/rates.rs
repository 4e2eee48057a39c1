//! Rates over the last minute, computed from totals that are sampled periodically.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use weir_base::clock::Timestamp;

use crate::model::QueueName;
use crate::store::{QueueArrivals, QueueCounts};

/// The interval between samples of the totals.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// The time span of a rate.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// Jobs per second below which a queue counts as not shrinking: less than one job per window.
const SHRINK_RATE_MIN: f64 = 1.0 / 120.0;

/// The samples of the last minute.
#[derive(Debug, Default)]
pub(crate) struct QueueRates {
    samples: VecDeque<RateSample>,
}

#[derive(Debug)]
struct RateSample {
    at: Timestamp,
    queues: HashMap<QueueName, QueueTotals>,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueTotals {
    pushed: u64,
    arrivals: QueueArrivals,
    ended: u64,
    /// Jobs that left the queue, if others change the store as well.
    left: u64,
}

impl From<&QueueCounts> for QueueTotals {
    fn from(queue: &QueueCounts) -> Self {
        Self {
            pushed: queue.pushed_total,
            arrivals: arrivals(queue),
            ended: queue.processed_total,
            left: 0,
        }
    }
}

/// The rates of one queue, in jobs per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    pub(crate) pushed: f64,
    /// Jobs that begin to wait, and those that fail and will come back.
    pub(crate) arriving: f64,
    pub(crate) processed: f64,
}

impl Rate {
    /// Returns the rate between two totals; 0 if they are of the same moment.
    fn between(before: QueueTotals, after: QueueTotals, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        if seconds <= 0.0 {
            return Self::default();
        }
        let rate = |after: u64, before: u64| as_f64(after.saturating_sub(before)) / seconds;
        Self {
            pushed: rate(after.pushed, before.pushed),
            arriving: arriving_per_second(before.arrivals, after.arrivals, seconds),
            processed: rate(after.ended, before.ended).max(rate(after.left, before.left)),
        }
    }

    /// Returns the time to drain in seconds, or `None` if the queue does not shrink. Protocol, pages, command line and
    /// metrics have it from here.
    pub(crate) fn drain_seconds(self, depth: u64) -> Option<f64> {
        if depth == 0 {
            return Some(0.0);
        }
        let shrink_rate = self.processed - self.arriving;
        (shrink_rate > SHRINK_RATE_MIN).then(|| as_f64(depth) / shrink_rate)
    }
}

impl QueueRates {
    /// Adds a sample of the totals, and of how many jobs have `left` a queue. Drops samples older than the window,
    /// except the newest of those.
    pub(crate) fn sample(
        &mut self,
        now: Timestamp,
        queues: &[QueueCounts],
        left: impl Fn(&str) -> u64,
    ) {
        while self.samples.get(1).is_some_and(|second| now.since(second.at) >= WINDOW) {
            self.samples.pop_front();
        }
        let totals = |queue: &QueueCounts| {
            let left = left(queue.name.as_str());
            (queue.name.clone(), QueueTotals { left, ..queue.into() })
        };
        let queues = queues.iter().map(totals).collect();
        self.samples.push_back(RateSample { at: now, queues });
    }

    /// Returns the time between the oldest and the newest sample: about a minute, less after a start.
    pub(crate) fn measured(&self) -> Duration {
        match (self.samples.front(), self.samples.back()) {
            (Some(oldest), Some(newest)) => newest.at.since(oldest.at),
            _ => Duration::ZERO,
        }
    }

    /// Returns the rate of a queue between the oldest and the newest sample.
    pub(crate) fn last_minute(&self, queue: &str) -> Rate {
        let (Some(oldest), Some(newest)) = (self.samples.front(), self.samples.back()) else {
            return Rate::default();
        };
        let totals = |sample: &RateSample| sample.queues.get(queue).copied().unwrap_or_default();
        Rate::between(totals(oldest), totals(newest), newest.at.since(oldest.at))
    }

    /// Returns the rate of all queues together, as [`Self::last_minute`], and their names.
    pub(crate) fn all_in_last_minute(&self) -> (Rate, Vec<&QueueName>) {
        let Some(newest) = self.samples.back() else { return Default::default() };
        let names: Vec<&QueueName> = newest.queues.keys().collect();
        let rates = names.iter().map(|name| self.last_minute(name.as_str()));
        let sum = rates.fold(Rate::default(), |sum, rate| Rate {
            pushed: sum.pushed + rate.pushed,
            arriving: sum.arriving + rate.arriving,
            processed: sum.processed + rate.processed,
        });
        (sum, names)
    }

    /// Returns the rate of a queue with these totals. A queue that is newer than the oldest sample
    /// is assumed to have started at 0.
    pub(crate) fn rate(&self, now: Timestamp, queue: &QueueCounts) -> Rate {
        let Some(oldest) = self.samples.front() else {
            return Rate::default();
        };
        let before = oldest.queues.get(&queue.name).copied().unwrap_or_default();
        Rate::between(before, queue.into(), now.since(oldest.at))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count for people: 53 bits are exact enough")]
pub(super) const fn as_f64(count: u64) -> f64 {
    count as f64
}

/// Returns the totals of arrivals. Where only pushes and failures are counted, each failure counts as a retry.
pub(super) fn arrivals(queue: &QueueCounts) -> QueueArrivals {
    queue.arrivals.unwrap_or(QueueArrivals {
        arrived_total: queue.pushed_total,
        retried_total: queue.failed_total,
        returned_total: 0,
    })
}

/// Returns the jobs per second that begin to wait, and those that fail and will come back: retries count when they
/// fail, and those that failed earlier when they return.
pub(super) fn arriving_per_second(
    before: QueueArrivals,
    after: QueueArrivals,
    seconds: f64,
) -> f64 {
    let rate = |after: u64, before: u64| as_f64(after.saturating_sub(before)) / seconds;
    let retries = rate(after.retried_total, before.retried_total)
        .max(rate(after.returned_total, before.returned_total));
    rate(after.arrived_total, before.arrived_total) + retries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::JobServerLimits;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn queue(pushed_total: u64, processed_total: u64) -> QueueCounts {
        QueueCounts {
            name: QueueName::parse("q", &JobServerLimits::default()).unwrap(),
            depth: 0,
            oldest: None,
            paused: false,
            reserved: 0,
            pushed_total,
            processed_total,
            failed_total: 0,
            lanes: crate::lanes::LaneCounts::default(),
            arrivals: None,
            blocked: crate::lanes::BlockedJobs::default(),
            blocked_by_resource: Vec::new(),
            in_time: None,
        }
    }

    #[test]
    fn rate_covers_the_last_minute() {
        let mut rates = QueueRates::default();
        assert_eq!(rates.rate(at(0), &queue(5, 5)), Rate::default());
        for second in 0..=20 {
            // 100 jobs a second for the first 50 seconds, then 10.
            let now = second * 5;
            let pushed = if now <= 50 { now * 100 } else { 5_000 + (now - 50) * 10 };
            rates.sample(at(now), &[queue(pushed, 0)], |_| now * 3);
        }
        let rate = rates.rate(at(100), &queue(5_500, 60));
        assert_eq!(rates.samples.front().map(|sample| sample.at), Some(at(40)));
        assert!((rate.pushed - 1_500.0 / 60.0).abs() < 1e-9, "{rate:?}");
        assert!((rate.processed - 1.0).abs() < 1e-9, "{rate:?}");
        let with_others = rates.last_minute("q").processed;
        assert!((with_others - 3.0).abs() < 1e-9, "{with_others}");
        assert_eq!(rates.measured(), Duration::from_secs(60));
    }

    #[test]
    fn growing_backlog_has_no_drain_time() {
        let rate = |arriving, processed| Rate { arriving, processed, ..Rate::default() };
        assert_eq!(rate(1.0, 3.0).drain_seconds(10), Some(5.0));
        assert_eq!(rate(3.0, 1.0).drain_seconds(10), None);
        assert_eq!(rate(1.0, 1.0).drain_seconds(10), None);
        assert_eq!(rate(3.0, 1.0).drain_seconds(0), Some(0.0));
    }

    #[test]
    fn jobs_that_will_be_tried_again_do_not_shrink_the_queue() {
        let mut rates = QueueRates::default();
        let with = |arrived, retried, returned, processed| QueueCounts {
            arrivals: Some(QueueArrivals {
                arrived_total: arrived,
                retried_total: retried,
                returned_total: returned,
            }),
            ..queue(9_999, processed)
        };
        rates.sample(at(0), &[with(0, 0, 0, 0)], |_| 0);
        let rate = |arrived, retried, returned, processed| {
            rates.rate(at(10), &with(arrived, retried, returned, processed))
        };
        assert_eq!(rate(0, 100, 0, 100).drain_seconds(50), None, "all of them fail");
        assert_eq!(rate(0, 50, 0, 100).drain_seconds(50), Some(10.0), "half of them");
        assert_eq!(
            rate(0, 0, 50, 100).drain_seconds(50),
            Some(10.0),
            "retries of earlier come back"
        );
        assert_eq!(rate(20, 30, 30, 100).drain_seconds(50), Some(10.0), "each counts once");
    }

    #[test]
    fn without_counts_of_retries_each_failure_is_one() {
        let mut rates = QueueRates::default();
        rates.sample(at(0), &[queue(0, 0)], |_| 0);
        let failing = QueueCounts { failed_total: 40, ..queue(10, 100) };
        assert_eq!(rates.rate(at(10), &failing).drain_seconds(50), Some(10.0));
    }
}
