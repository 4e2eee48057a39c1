//! Growth and time to drain of a queue, from two samples of it.
//!
//! Redis has no counters per queue. Two lengths give the net change, and the enqueue times of the
//! newest jobs give the arrival rate; the completion rate is the difference.

use std::time::Duration;

use serde::Serialize;
use weir_base::clock::Timestamp;
use weir_base::drain::{NORMAL_QUANTILE, Trend, student_quantile};

/// The change of a queue between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Flow {
    /// Time between the samples.
    pub window: Duration,
    /// Length at the first sample.
    pub before: u64,
    /// Length at the second sample.
    pub after: u64,
    /// The arrival rate.
    pub arrivals_per_second: f64,
    /// Standard deviation of the net change over one window, in jobs, measured from samples in
    /// between. `None` if there were too few samples; it is then estimated.
    pub deviation: Option<f64>,
}

/// When a queue will be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Drain {
    /// No jobs are waiting.
    Empty,
    /// After this time, at the present rates.
    After(Duration),
    /// The length does not change by more than chance explains.
    Stands,
    /// The queue is growing.
    Grows,
}

/// Changes of fewer standard deviations than this are attributed to chance.
///
/// At two, 1 in 20 unchanged queues would be reported as changing; at three, 1 in 370.
const CHANCE_DEVIATIONS: f64 = 3.0;
/// Degrees of freedom of a deviation that is estimated from the usual ten intervals between counts.
const DEGREES: f64 = 9.0;
/// A rate is never known better than to this share: counts are whole jobs, and rates differ a little from one minute to
/// the next.
const RATE_SHARE_MIN: f64 = 0.03;
/// 95 % upper limit of the expected number of events when none was observed (-ln 0.05).
const UNSEEN_EVENTS: f64 = 3.0;
const HOUR_SECONDS: f64 = 3_600.0;
const STEADY_SHARE: f64 = 0.1;
/// The minimum number of counts for estimating a deviation.
const COUNTS_MIN: usize = 4;

impl Flow {
    /// Returns the change of length per second.
    #[must_use]
    pub fn net_per_second(&self) -> f64 {
        let seconds = self.window.as_secs_f64();
        if seconds > 0.0 { (self.after as f64 - self.before as f64) / seconds } else { 0.0 }
    }

    /// Returns the completion rate in jobs per second.
    #[must_use]
    pub fn served_per_second(&self) -> f64 {
        (self.arrivals_per_second - self.net_per_second()).max(0.0)
    }

    /// Returns when the queue will be empty.
    #[must_use]
    pub fn drain(&self) -> Drain {
        let net = self.net_per_second();
        if self.after == 0 {
            Drain::Empty
        } else if self.is_chance() {
            Drain::Stands
        } else if net > 0.0 {
            Drain::Grows
        } else {
            Duration::try_from_secs_f64(self.after as f64 / -net)
                .map_or(Drain::Stands, Drain::After)
        }
    }

    /// Sums the flows of queues that share threads. Threads of an empty queue serve the others, so
    /// the whole drains at the total rate.
    #[must_use]
    pub fn total<'a>(flows: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        flows.into_iter().copied().reduce(|one, other| Self {
            window: one.window.max(other.window),
            before: one.before.saturating_add(other.before),
            after: one.after.saturating_add(other.after),
            arrivals_per_second: one.arrivals_per_second + other.arrivals_per_second,
            deviation: Some(one.deviation().hypot(other.deviation())),
        })
    }

    /// Returns the trend from which the time to drain and its range are computed. Its noise is that
    /// of the counts in between; ten seconds are too short to measure drift.
    #[must_use]
    pub fn trend(&self) -> Trend {
        let window_seconds = self.window.as_secs_f64();
        Trend {
            change_per_second: self.net_per_second(),
            ended_per_second: self.served_per_second(),
            window_seconds,
            noise: self.chance().powi(2) / window_seconds.max(f64::MIN_POSITIVE),
            drift: (RATE_SHARE_MIN * self.net_per_second()).powi(2),
            ..Trend::default()
        }
    }

    /// Reports whether the queue is known to be steady: within an hour its length changes by less
    /// than a tenth. No change in ten seconds alone does not prove that: with zero observed events,
    /// three may still be expected.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let seconds = self.window.as_secs_f64();
        let most = self.change() + self.chance() + UNSEEN_EVENTS;
        seconds > 0.0 && most / seconds * HOUR_SECONDS < STEADY_SHARE * self.after as f64
    }

    /// Returns by how much the change may differ by chance, in jobs.
    fn chance(&self) -> f64 {
        let quantile = self.deviation.map_or(NORMAL_QUANTILE, |_| student_quantile(DEGREES));
        quantile * self.deviation()
    }

    fn is_chance(&self) -> bool {
        self.change() < CHANCE_DEVIATIONS * self.deviation() || self.change() == 0.0
    }

    fn change(&self) -> f64 {
        (self.after as f64 - self.before as f64).abs()
    }

    /// Returns the standard deviation of the net change. Without samples in between, arrivals and
    /// completions are taken as Poisson counts: the variance of their difference is their sum.
    fn deviation(&self) -> f64 {
        let events = (self.arrivals_per_second + self.served_per_second()).max(0.0);
        self.deviation.unwrap_or_else(|| (events * self.window.as_secs_f64()).sqrt())
    }
}

/// Estimates the variance of a queue's change over a series of counts, each with its time in
/// seconds. Returns `None` if there are too few counts.
///
/// Sums the squared deviations of each interval from the mean rate. That captures bursts of
/// arrivals and of slow jobs, which a Poisson estimate would miss.
#[must_use]
pub fn variance(counts: &[(f64, u64)]) -> Option<f64> {
    let (first, last) = (counts.first()?, counts.last()?);
    let (seconds, stretches) = (last.0 - first.0, counts.len() - 1);
    if stretches < COUNTS_MIN || seconds <= 0.0 {
        return None;
    }
    let pace = (last.1 as f64 - first.1 as f64) / seconds;
    let strays = counts.windows(2).map(|pair| {
        let change = pair[1].1 as f64 - pair[0].1 as f64;
        (change - pace * (pair[1].0 - pair[0].0)).powi(2)
    });
    Some(strays.sum::<f64>() * stretches as f64 / (stretches - 1) as f64)
}

/// Estimates the arrival rate from the enqueue times of a queue's newest jobs (newest first).
///
/// Underestimates it when the queue is shorter than the sample, because workers have already taken
/// some of the jobs.
#[must_use]
pub fn arrivals_per_second(newest_first: &[Timestamp], now: Timestamp) -> f64 {
    let Some(oldest) = newest_first.last() else { return 0.0 };
    let span = now.since(*oldest).as_secs_f64();
    // A sample within one clock tick gives no rate.
    if span < 0.001 { 0.0 } else { newest_first.len() as f64 / span }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN_SECONDS: Duration = Duration::from_secs(10);

    fn flow(before: u64, after: u64, arrivals_per_second: f64) -> Flow {
        Flow { window: TEN_SECONDS, before, after, arrivals_per_second, ..Flow::default() }
    }

    #[test]
    fn the_meltdown_drains_in_fourteen_hours() {
        // 194,000 jobs at 3.85 per second: the window must be long enough to tell that from chance.
        let window = Duration::from_secs(100);
        let flow = Flow { window, before: 194_385, after: 194_000, ..Flow::default() };
        assert_eq!(flow.served_per_second(), 3.85);
        let Drain::After(left) = flow.drain() else { panic!("{:?}", flow.drain()) };
        assert_eq!(left.as_secs() / 3600, 13);
    }

    #[test]
    fn a_queue_grows_shrinks_stands_or_is_empty() {
        assert_eq!(flow(1_000, 0, 5.0).drain(), Drain::Empty);
        assert_eq!(flow(1_000, 1_400, 50.0).drain(), Drain::Grows);
        assert_eq!(flow(1_000, 900, 5.0).drain(), Drain::After(Duration::from_secs(90)));
        assert_eq!(flow(1_000, 1_000, 5.0).drain(), Drain::Stands);
        // 500 arrivals and 510 completions may as well have been the other way round.
        assert_eq!(flow(1_000, 990, 50.0).drain(), Drain::Stands);
        // With 1,000 arrivals and completions, changes up to 95 are attributed to chance.
        assert_eq!(flow(1_000, 1_080, 54.0).drain(), Drain::Stands);
        assert_eq!(flow(1_000, 1_110, 55.5).drain(), Drain::Grows);
    }

    #[test]
    fn that_a_queue_stands_takes_long_enough_to_show() {
        // Without events in ten seconds, up to 1,080 are possible in an hour.
        assert!(!flow(1_500, 1_500, 0.0).is_steady());
        assert!(flow(20_000, 20_000, 0.0).is_steady());
        assert!(!flow(200_000, 199_990, 50.0).is_steady());
        let minutes = Duration::from_secs(600);
        assert!(Flow { window: minutes, ..flow(1_500, 1_500, 0.0) }.is_steady());
        assert!(!Flow { window: Duration::ZERO, ..flow(1_500, 1_500, 0.0) }.is_steady());
    }

    #[test]
    fn counts_in_between_tell_what_is_chance() {
        let counts = |each: &dyn Fn(u32) -> u64| {
            (0..=10).map(|second| (f64::from(second), each(second))).collect::<Vec<_>>()
        };
        let steady = variance(&counts(&|second| 1_000 - u64::from(second) * 10)).unwrap();
        assert!(steady < 1e-9, "{steady}");
        // 100 completions in the first second and none later: 90^2 + 9 * 10^2, with nine degrees of
        // freedom.
        let bunch = variance(&counts(&|second| if second == 0 { 1_000 } else { 900 })).unwrap();
        assert!((bunch - 10_000.0).abs() < 1e-6, "{bunch}");
        let known = |deviation| Flow { deviation: Some(deviation), ..flow(1_000, 900, 0.0) };
        assert_eq!(known(bunch.sqrt()).drain(), Drain::Stands);
        assert_eq!(known(0.0).drain(), Drain::After(Duration::from_secs(90)));
        let range = known(10.0).trend().forecast(900.0).range().unwrap();
        assert!((75.0..77.0).contains(&range.shortest_seconds), "{range:?}");
        assert!((110.0..113.0).contains(&range.longest_seconds), "{range:?}");
        assert_eq!(known(60.0).trend().forecast(900.0).range(), None);
        assert_eq!(variance(&[(0.0, 7), (1.0, 6), (2.0, 5), (3.0, 4)]), None);
    }

    #[test]
    fn looks_without_time_between_them_tell_nothing() {
        let flow = Flow { before: 1, after: 9, ..Flow::default() };
        assert_eq!(flow.net_per_second(), 0.0);
    }

    #[test]
    fn a_queue_that_is_not_served_yet_drains_with_the_whole() {
        let total = Flow::total(&[flow(2_000, 1_000, 0.0), flow(1_000, 1_000, 0.0)]).unwrap();
        assert_eq!(total.drain(), Drain::After(Duration::from_secs(20)));
        assert_eq!(Flow::total([]), None);
    }

    #[test]
    fn arrivals_come_from_the_spacing_of_the_newest_jobs() {
        let second = |at: u64| Timestamp::from_millis(1_000_000 + at * 1_000);
        let newest: Vec<_> = (0..20).rev().map(second).collect();
        assert_eq!(arrivals_per_second(&newest, second(20)), 1.0);
        // The last job arrived long ago, so the rate is an average over that time.
        assert_eq!(arrivals_per_second(&newest, second(200)), 0.1);
        assert_eq!(arrivals_per_second(&[], second(0)), 0.0);
        assert_eq!(arrivals_per_second(&[second(5)], second(5)), 0.0);
    }

    proptest::proptest! {
        #[test]
        fn every_flow_has_an_end_or_none(
            before: u64,
            after: u64,
            arrivals_per_second in 0.0..1e9f64,
            millis in 0..100_000u64,
        ) {
            let window = Duration::from_millis(millis);
            let flow = Flow { window, before, after, arrivals_per_second, deviation: None };
            proptest::prop_assert!(flow.served_per_second() >= 0.0);
            match flow.drain() {
                Drain::Empty => proptest::prop_assert_eq!(after, 0),
                Drain::After(_) => proptest::prop_assert!(after < before),
                Drain::Grows => proptest::prop_assert!(after > before),
                Drain::Stands => {}
            }
        }
    }
}
