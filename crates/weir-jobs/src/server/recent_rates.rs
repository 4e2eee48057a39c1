//! Rates over the last ten seconds, for people: what happens now, beside the rates of the last minute ([`super::rates`]).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use weir_base::clock::Timestamp;

use super::rates::{arrivals, arriving_per_second, as_f64};
use crate::model::QueueName;
use crate::store::{InTimeStarts, QueueArrivals, QueueCounts};
use crate::view::RecentRates;

/// The time span of a rate.
const WINDOW: Duration = Duration::from_secs(10);
/// The interval between samples. A window is at most half of it longer or shorter.
const INTERVAL: Duration = Duration::from_secs(2);

/// The samples of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct RecentTotals {
    samples: VecDeque<RecentSample>,
}

#[derive(Debug)]
struct RecentSample {
    at: Timestamp,
    queues: HashMap<QueueName, RecentQueueTotals>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RecentQueueTotals {
    pushed: u64,
    processed: u64,
    arrivals: QueueArrivals,
    in_time: Option<InTimeStarts>,
}

impl From<&QueueCounts> for RecentQueueTotals {
    fn from(queue: &QueueCounts) -> Self {
        Self {
            pushed: queue.pushed_total,
            processed: queue.processed_total,
            arrivals: arrivals(queue),
            in_time: queue.in_time,
        }
    }
}

impl RecentTotals {
    /// Adds a sample, unless the last one is very recent. Drops those that are too old for any window.
    pub(crate) fn sample(&mut self, now: Timestamp, queues: &[QueueCounts]) {
        if self.samples.back().is_some_and(|last| now < last.at) {
            // The clock went back, which makes differences meaningless.
            self.samples.clear();
        }
        if self.samples.back().is_some_and(|last| now.since(last.at) < INTERVAL) {
            return;
        }
        while self.samples.get(1).is_some_and(|second| now.since(second.at) >= WINDOW) {
            self.samples.pop_front();
        }
        let queues = queues.iter().map(|queue| (queue.name.clone(), queue.into())).collect();
        self.samples.push_back(RecentSample { at: now, queues });
    }

    /// Returns the rates of a queue with these totals; zero until there is an earlier sample. A queue that is newer than
    /// that sample is assumed to have started at 0.
    pub(crate) fn rates(&self, now: Timestamp, queue: &QueueCounts) -> RecentRates {
        let distance = |sample: &&RecentSample| now.since(sample.at).abs_diff(WINDOW);
        let Some(before) = self.samples.iter().min_by_key(distance) else {
            return RecentRates::default();
        };
        let seconds = now.since(before.at).as_secs_f64();
        if seconds <= 0.0 {
            return RecentRates::default();
        }
        let totals = before.queues.get(&queue.name).copied().unwrap_or_default();
        between(totals, queue.into(), seconds)
    }
}

fn between(before: RecentQueueTotals, after: RecentQueueTotals, seconds: f64) -> RecentRates {
    let rate = |after: u64, before: u64| as_f64(after.saturating_sub(before)) / seconds;
    let in_time = after.in_time.map(|after| {
        let before = before.in_time.unwrap_or_default();
        let waited = after.waited.saturating_sub(before.waited).as_secs_f64();
        (after.total.saturating_sub(before.total), waited)
    });
    RecentRates {
        pushed_per_second: rate(after.pushed, before.pushed),
        arriving_per_second: arriving_per_second(before.arrivals, after.arrivals, seconds),
        processed_per_second: rate(after.processed, before.processed),
        in_time_per_second: in_time.map(|(total, _)| as_f64(total) / seconds),
        in_time_wait_seconds: in_time
            .filter(|(total, _)| *total > 0)
            .map(|(total, waited)| waited / as_f64(total)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::JobServerLimits;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + seconds * 1_000)
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
    fn a_flood_that_has_ended_is_not_in_the_rates_after_ten_seconds() {
        let mut recent = RecentTotals::default();
        assert_eq!(recent.rates(at(0), &queue(5, 5)), RecentRates::default());
        for second in 0..=60 {
            // 1,000 jobs a second for 45 seconds, then 20.
            let pushed = if second <= 45 { second * 1_000 } else { 45_000 + (second - 45) * 20 };
            recent.sample(at(second), &[queue(pushed, second * 300)]);
        }
        let rates = recent.rates(at(60), &queue(45_300, 18_000));
        assert_eq!((rates.pushed_per_second, rates.processed_per_second), (20.0, 300.0));
        assert_eq!(rates.growth_per_second(), -280.0);
        assert_eq!(rates.in_time_per_second, None, "no target");
        assert!(recent.samples.len() <= 7, "{}", recent.samples.len());
        recent.sample(at(1), &[queue(0, 0)]);
        assert_eq!(recent.samples.len(), 1, "the clock went back");
    }

    #[test]
    fn jobs_in_time_have_a_rate_and_a_mean_wait() {
        let mut recent = RecentTotals::default();
        let with = |total, waited| QueueCounts {
            in_time: Some(InTimeStarts { total, waited: Duration::from_millis(waited) }),
            ..queue(0, 0)
        };
        recent.sample(at(0), &[with(100, 1_000)]);
        let rates = recent.rates(at(10), &with(300, 3_000));
        assert_eq!(rates.in_time_per_second, Some(20.0));
        assert_eq!(rates.in_time_wait_seconds, Some(0.01));
        let rates = recent.rates(at(10), &with(100, 1_000));
        assert_eq!((rates.in_time_per_second, rates.in_time_wait_seconds), (Some(0.0), None));
    }

    #[test]
    fn only_jobs_within_the_target_count_as_in_time() {
        let mut starts = InTimeStarts::default();
        starts.count(Duration::from_secs(1), None);
        starts.count(Duration::from_secs(11), Some(Duration::from_secs(10)));
        assert_eq!(starts, InTimeStarts::default());
        starts.count(Duration::from_secs(10), Some(Duration::from_secs(10)));
        assert_eq!(starts, InTimeStarts { total: 1, waited: Duration::from_secs(10) });
    }
}
