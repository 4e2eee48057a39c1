//! Rates over the last minute and forecasts, computed from totals that are sampled periodically.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use weir_base::clock::Timestamp;
use weir_base::drain::{BacklogSample, DrainForecast, Trend, since_it_was_empty};

use crate::model::QueueName;
use crate::store::{QueueArrivals, QueueCounts};

/// The interval between samples of the totals.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
/// The time span of a rate.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// The time span of the samples: forecasts need to see how well one minute predicts the next.
const HISTORY: Duration = Duration::from_secs(120);
/// A backlog that was measured for a shorter time has no forecast.
const FORECAST_AFTER: Duration = Duration::from_secs(20);

/// The samples of the last two minutes.
#[derive(Debug, Default)]
pub(crate) struct QueueRates {
    samples: VecDeque<RateSample>,
    /// The trends of the queues with a backlog, as of the newest sample.
    trends: HashMap<QueueName, MeasuredTrend>,
    /// That of all queues together.
    trend_of_all: MeasuredTrend,
}

#[derive(Debug)]
struct RateSample {
    at: Timestamp,
    queues: HashMap<QueueName, QueueTotals>,
    all: QueueTotals,
}

/// The trend of a backlog, or for how long it was measured without one.
#[derive(Clone, Copy, Debug)]
enum MeasuredTrend {
    Known(Trend),
    TooShort(Duration),
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueTotals {
    pushed: u64,
    arrivals: QueueArrivals,
    ended: u64,
    /// Jobs that left the queue, if others change the store as well.
    left: u64,
    depth: u64,
    working: u64,
}

impl From<&QueueCounts> for QueueTotals {
    fn from(queue: &QueueCounts) -> Self {
        Self {
            pushed: queue.pushed_total,
            arrivals: arrivals(queue),
            ended: queue.processed_total,
            left: 0,
            depth: queue.depth,
            working: queue.reserved,
        }
    }
}

impl QueueTotals {
    fn plus(self, other: Self) -> Self {
        let (one, two) = (self.arrivals, other.arrivals);
        Self {
            pushed: self.pushed.saturating_add(other.pushed),
            arrivals: QueueArrivals {
                arrived_total: one.arrived_total.saturating_add(two.arrived_total),
                retried_total: one.retried_total.saturating_add(two.retried_total),
                returned_total: one.returned_total.saturating_add(two.returned_total),
            },
            ended: self.ended.saturating_add(other.ended),
            left: self.left.saturating_add(other.left),
            depth: self.depth.saturating_add(other.depth),
            working: self.working.saturating_add(other.working),
        }
    }

    fn backlog(self, at: Timestamp, others_take_more: bool) -> BacklogSample {
        BacklogSample {
            at_seconds: at.as_secs_f64(),
            depth: as_f64(self.depth),
            arrived: as_f64(self.arrivals.arrived_total),
            ended: as_f64(if others_take_more { self.left } else { self.ended }),
            retried: as_f64(self.arrivals.retried_total),
            returned: as_f64(self.arrivals.returned_total),
            working: as_f64(self.working),
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
}

impl Default for MeasuredTrend {
    fn default() -> Self {
        Self::TooShort(Duration::ZERO)
    }
}

impl MeasuredTrend {
    /// Measures the trend from samples of the totals, oldest first.
    fn of(totals: &[(Timestamp, QueueTotals)]) -> Self {
        let first = totals.first().map(|(_, totals)| *totals).unwrap_or_default();
        let last = totals.last().map(|(_, totals)| *totals).unwrap_or_default();
        let others_take_more =
            last.left.saturating_sub(first.left) > last.ended.saturating_sub(first.ended);
        let samples: Vec<_> =
            totals.iter().map(|(at, totals)| totals.backlog(*at, others_take_more)).collect();
        let backlog = since_it_was_empty(&samples);
        let seconds = backlog.first().zip(backlog.last());
        let seconds = seconds.map_or(0.0, |(first, last)| last.at_seconds - first.at_seconds);
        let measured = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        match Trend::of(backlog).filter(|_| measured >= FORECAST_AFTER) {
            Some(trend) => Self::Known(trend),
            None => Self::TooShort(measured),
        }
    }

    /// Returns when `depth` jobs will be gone.
    fn forecast(self, depth: u64) -> DrainForecast {
        match self {
            _ if depth == 0 => DrainForecast::Empty,
            Self::Known(trend) => trend.forecast(as_f64(depth)),
            Self::TooShort(measured) => {
                DrainForecast::TooShort { measured_seconds: measured.as_secs_f64() }
            }
        }
    }
}

impl QueueRates {
    /// Adds a sample of the totals, and of how many jobs have `left` a queue. Drops samples older than the history,
    /// except the newest of those.
    pub(crate) fn sample(
        &mut self,
        now: Timestamp,
        queues: &[QueueCounts],
        left: impl Fn(&str) -> u64,
    ) {
        while self.samples.get(1).is_some_and(|second| now.since(second.at) >= HISTORY) {
            self.samples.pop_front();
        }
        let totals = |queue: &QueueCounts| {
            let left = left(queue.name.as_str());
            (queue.name.clone(), QueueTotals { left, ..queue.into() })
        };
        let queues: HashMap<_, _> = queues.iter().map(totals).collect();
        let all = queues.values().copied().fold(QueueTotals::default(), QueueTotals::plus);
        self.samples.push_back(RateSample { at: now, queues, all });
        self.measure_trends();
    }

    fn measure_trends(&mut self) {
        let Some(newest) = self.samples.back() else { return };
        let waiting = newest.queues.iter().filter(|(_, totals)| totals.depth > 0);
        let trend = |name: &QueueName| {
            let totals = |sample: &RateSample| Some((sample.at, *sample.queues.get(name)?));
            MeasuredTrend::of(&self.samples.iter().filter_map(totals).collect::<Vec<_>>())
        };
        let trends = waiting.map(|(name, _)| (name.clone(), trend(name))).collect();
        let all: Vec<_> = self.samples.iter().map(|sample| (sample.at, sample.all)).collect();
        (self.trends, self.trend_of_all) = (trends, MeasuredTrend::of(&all));
    }

    /// Returns when a queue of `depth` jobs will be empty. Protocol, pages, command line and metrics have it from here.
    pub(crate) fn forecast(&self, queue: &str, depth: u64) -> DrainForecast {
        self.trends.get(queue).copied().unwrap_or_default().forecast(depth)
    }

    /// Returns the same for all queues together, which have `depth` jobs.
    pub(crate) fn forecast_of_all(&self, depth: u64) -> DrainForecast {
        self.trend_of_all.forecast(depth)
    }

    /// Returns the oldest sample of the last minute, or the newest one before it.
    fn minute_ago(&self) -> Option<&RateSample> {
        let now = self.samples.back()?.at;
        let before = |sample: &&RateSample| now.since(sample.at) >= WINDOW;
        self.samples.iter().rev().find(before).or_else(|| self.samples.front())
    }

    /// Returns the time between the oldest and the newest sample: about a minute, less after a start.
    pub(crate) fn measured(&self) -> Duration {
        match (self.minute_ago(), self.samples.back()) {
            (Some(oldest), Some(newest)) => newest.at.since(oldest.at),
            _ => Duration::ZERO,
        }
    }

    /// Returns the rate of a queue between the oldest and the newest sample.
    pub(crate) fn last_minute(&self, queue: &str) -> Rate {
        let (Some(oldest), Some(newest)) = (self.minute_ago(), self.samples.back()) else {
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
        let Some(oldest) = self.minute_ago() else {
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

/// Returns the totals of arrivals. Where only pushes and failures are counted, each failure counts as a job that
/// arrives.
pub(super) fn arrivals(queue: &QueueCounts) -> QueueArrivals {
    queue.arrivals.unwrap_or(QueueArrivals {
        arrived_total: queue.pushed_total.saturating_add(queue.failed_total),
        ..QueueArrivals::default()
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
        for second in 0..=40 {
            // 100 jobs a second for the first 150 seconds, then 10.
            let now = second * 5;
            let pushed = if now <= 150 { now * 100 } else { 15_000 + (now - 150) * 10 };
            rates.sample(at(now), &[queue(pushed, 0)], |_| now * 3);
        }
        let rate = rates.rate(at(200), &queue(15_500, 60));
        assert_eq!(rates.minute_ago().map(|sample| sample.at), Some(at(140)));
        assert_eq!(rates.samples.front().map(|sample| sample.at), Some(at(80)));
        assert!((rate.pushed - 1_500.0 / 60.0).abs() < 1e-9, "{rate:?}");
        assert!((rate.processed - 1.0).abs() < 1e-9, "{rate:?}");
        let with_others = rates.last_minute("q").processed;
        assert!((with_others - 3.0).abs() < 1e-9, "{with_others}");
        assert_eq!(rates.measured(), Duration::from_secs(60));
    }

    /// Returns the forecast after a minute of samples, every five seconds.
    fn forecast(counts: impl Fn(u64) -> QueueCounts) -> DrainForecast {
        let mut rates = QueueRates::default();
        for second in (0..=60).step_by(5) {
            rates.sample(at(second), &[counts(second)], |_| 0);
        }
        rates.forecast("q", counts(60).depth)
    }

    fn expected(forecast: DrainForecast) -> u64 {
        let seconds = forecast.expected_seconds().unwrap_or_else(|| panic!("{forecast:?}"));
        Duration::from_secs_f64(seconds + 0.5).as_secs()
    }

    #[test]
    fn growing_backlog_has_no_drain_time() {
        let with = |arriving: u64, processed: u64| {
            forecast(|second| QueueCounts {
                depth: 60_000 + second * arriving - second * processed,
                ..queue(60_000 + second * arriving, second * processed)
            })
        };
        assert_eq!(expected(with(100, 300)), 240);
        assert_eq!(with(300, 100), DrainForecast::Grows);
        assert_eq!(with(0, 0), DrainForecast::Stalled);
        assert!(matches!(with(100, 100), DrainForecast::TooVariable { .. }));
    }

    #[test]
    fn backlog_that_was_just_pushed_has_no_forecast_yet() {
        let mut rates = QueueRates::default();
        let counts = |second: u64| {
            let gone = second.saturating_sub(30) * 10;
            let pushed = if second < 30 { 0 } else { 1_000 };
            QueueCounts { depth: pushed - gone, ..queue(pushed, gone) }
        };
        for second in (0..=45).step_by(5) {
            rates.sample(at(second), &[counts(second)], |_| 0);
        }
        assert_eq!(rates.forecast("q", 850), DrainForecast::TooShort { measured_seconds: 15.0 });
        assert_eq!(rates.forecast("q", 0), DrainForecast::Empty);
        for second in [50, 55] {
            rates.sample(at(second), &[counts(second)], |_| 0);
        }
        // The jobs that began the backlog do not count as arriving.
        assert_eq!(expected(rates.forecast("q", 750)), 75);
        assert_eq!(expected(rates.forecast_of_all(750)), 75);
    }

    #[test]
    fn jobs_that_will_be_tried_again_do_not_shrink_the_queue() {
        let with = |retried: u64, returned: u64| {
            forecast(|second| QueueCounts {
                depth: 30_000 - second * 100 + second * returned,
                arrivals: Some(QueueArrivals {
                    arrived_total: 0,
                    retried_total: second * retried,
                    returned_total: second * returned,
                }),
                ..queue(0, second * 100)
            })
        };
        let all_fail = with(100, 0);
        assert!(matches!(all_fail, DrainForecast::TooVariable { .. }), "{all_fail:?}");
        assert_eq!(expected(with(50, 0)), 480, "half of them");
        assert_eq!(expected(with(0, 50)), 540, "retries of earlier come back");
    }

    #[test]
    fn without_counts_of_retries_each_failure_is_one() {
        let failing = forecast(|second| QueueCounts {
            failed_total: second * 40,
            depth: 12_000 - second * 100,
            ..queue(0, second * 100)
        });
        assert_eq!(expected(failing), 100);
    }
}
