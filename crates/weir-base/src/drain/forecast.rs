//! The range of the time to drain.
//!
//! A measured rate differs from the one that follows by two kinds of chance: noise, which is independent from one second
//! to the next and so averages out over the window `w` that was measured and the time `T` that follows (variance
//! `noise * (1 / w + 1 / T)`), and drift, which does not (variance `drift`). The ends of the range are the times at which
//! the depth that is expected, less or plus the chance, reaches 0:
//!
//! ```text
//! depth + rate * T = -+ T * sqrt(drift + noise * (1 / w + 1 / T))
//! ```
//!
//! Squared, this is a quadratic equation in `T`, with the shortest time and the longest one as its solutions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The share of the times to drain that are within their range, in percent.
pub const LEVEL_PERCENT: u32 = 90;
/// A range whose end is later than this many times its start is no forecast.
pub const RANGE_RATIO_MAX: f64 = 10.0;
/// Half-width of the range at [`LEVEL_PERCENT`], in standard deviations that are known.
pub const NORMAL_QUANTILE: f64 = 1.645;

/// When a backlog will be empty.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum DrainForecast {
    /// No job waits.
    Empty,
    /// Within a range.
    Drains(DrainRange),
    /// Never at the present rates: it grows by more than chance explains.
    Grows,
    /// Never at the present rates: no job is completed.
    Stalled,
    /// Not enough data: it was measured for too short a time.
    TooShort {
        /// How long it was measured.
        measured_seconds: f64,
    },
    /// Not enough data: its rates vary too much for a range, or its depth hardly changes.
    TooVariable {
        /// At least this long.
        shortest_seconds: f64,
    },
}

/// A time to drain with its range.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct DrainRange {
    /// At the present rates.
    pub expected_seconds: f64,
    /// The start of the range.
    pub shortest_seconds: f64,
    /// The end of the range.
    pub longest_seconds: f64,
}

/// What was measured of a backlog. Rates are in jobs per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trend {
    /// Arrivals, without retries, less the jobs that ended; negative while the backlog shrinks.
    pub change_per_second: f64,
    /// Jobs that ended.
    pub ended_per_second: f64,
    /// The time over which the change was measured.
    pub window_seconds: f64,
    /// Variance of the change per second, times the square of the quantile.
    pub noise: f64,
    /// Variance of the rate that longer times do not reduce, times the square of the quantile.
    pub drift: f64,
    /// Jobs that failed and will come back.
    pub retries: Retries,
}

/// Jobs that failed and will come back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Retries {
    /// For how long those come back that have failed already.
    pub delay_seconds: f64,
    /// Jobs per second that come back meanwhile.
    pub due_per_second: f64,
    /// Jobs per second that come back from then on: as many as fail now.
    pub failing_per_second: f64,
}

impl DrainForecast {
    /// Returns the expected time to drain.
    #[must_use]
    pub const fn expected_seconds(&self) -> Option<f64> {
        match self {
            Self::Empty => Some(0.0),
            Self::Drains(range) => Some(range.expected_seconds),
            Self::Grows | Self::Stalled | Self::TooShort { .. } | Self::TooVariable { .. } => None,
        }
    }

    /// Returns the range, if there is one.
    #[must_use]
    pub const fn range(&self) -> Option<DrainRange> {
        match self {
            Self::Drains(range) => Some(*range),
            _ => None,
        }
    }

    /// Describes the forecast: `12 min (9 min to 20 min)`. `duration` formats seconds.
    #[must_use]
    pub fn describe(&self, duration: impl Fn(f64) -> String) -> String {
        match *self {
            Self::Empty => "–".to_owned(),
            Self::Drains(range) => range.describe(duration),
            Self::Grows => "never, grows".to_owned(),
            Self::Stalled => "never, no jobs completed".to_owned(),
            Self::TooShort { measured_seconds } => {
                format!("not enough data, measured for {}", duration(measured_seconds))
            }
            Self::TooVariable { shortest_seconds } => {
                format!("not enough data, at least {}", duration(shortest_seconds))
            }
        }
    }
}

impl Default for DrainForecast {
    /// Nothing is measured.
    fn default() -> Self {
        Self::TooShort { measured_seconds: 0.0 }
    }
}

impl DrainRange {
    /// Describes the range: `12 min (9 min to 20 min)`, or `12 min` if that is all the same.
    #[must_use]
    pub fn describe(&self, duration: impl Fn(f64) -> String) -> String {
        let [expected, shortest, longest] =
            [self.expected_seconds, self.shortest_seconds, self.longest_seconds].map(duration);
        match shortest == longest {
            true => expected,
            false => format!("{expected} ({shortest} to {longest})"),
        }
    }
}

impl Trend {
    /// Returns when `depth` jobs will be gone.
    #[must_use]
    pub fn forecast(&self, depth: f64) -> DrainForecast {
        if depth <= 0.0 {
            return DrainForecast::Empty;
        }
        if self.ended_per_second <= 0.0 && self.change_per_second >= 0.0 {
            return DrainForecast::Stalled;
        }
        let (shortest_seconds, longest) = self.bounds(depth);
        let Some(shortest_seconds) = shortest_seconds else { return DrainForecast::Grows };
        match (self.expected_seconds(depth), longest) {
            (Some(expected_seconds), Some(longest_seconds))
                if longest_seconds <= RANGE_RATIO_MAX * shortest_seconds =>
            {
                DrainForecast::Drains(DrainRange {
                    expected_seconds,
                    shortest_seconds,
                    longest_seconds,
                })
            }
            _ => DrainForecast::TooVariable { shortest_seconds },
        }
    }

    /// Returns the time to drain at the present rates, without chance. `None`: it never ends.
    #[must_use]
    pub fn expected_seconds(&self, depth: f64) -> Option<f64> {
        Self { noise: 0.0, drift: 0.0, ..*self }.bounds(depth).1
    }

    /// Returns the shortest and the longest time to drain. `None`: it may never end.
    fn bounds(&self, depth: f64) -> (Option<f64>, Option<f64>) {
        let Retries { delay_seconds: delay, due_per_second: due, failing_per_second: failing } =
            self.retries;
        let soon = self.crossings(depth, self.change_per_second + due);
        // From `delay` on, those come back that fail from now on.
        let then =
            self.crossings(depth + (due - failing) * delay, self.change_per_second + failing);
        let is_soon = |time: &f64| *time <= delay;
        let ends = |soon: Option<f64>, then: Option<f64>| {
            soon.filter(is_soon).or(then.map(|time| time.max(delay)))
        };
        (ends(soon.0, then.0), ends(soon.1, then.1))
    }

    /// Returns the solutions of the equation in the module's documentation.
    fn crossings(&self, depth: f64, rate: f64) -> (Option<f64>, Option<f64>) {
        if depth <= 0.0 {
            return (Some(0.0), Some(0.0));
        }
        let a = rate * rate - self.drift - self.noise / self.window_seconds.max(f64::MIN_POSITIVE);
        let b = 2.0 * depth * rate - self.noise;
        let root = (b * b - 4.0 * a * depth * depth).max(0.0).sqrt() - b;
        // Without the minuses of the other solution, so that nothing is lost where both are alike.
        let first = (root > 0.0).then(|| 2.0 * depth * depth / root);
        let is_shrinking = rate < 0.0 && a > 0.0;
        (first.filter(|_| rate < 0.0 || a < 0.0), is_shrinking.then(|| root / (2.0 * a)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trend(change_per_second: f64, noise: f64, drift: f64) -> Trend {
        let ended_per_second = 10.0;
        Trend {
            change_per_second,
            ended_per_second,
            window_seconds: 100.0,
            noise,
            drift,
            ..Trend::default()
        }
    }

    fn range(forecast: DrainForecast) -> [f64; 3] {
        let Some(DrainRange { expected_seconds, shortest_seconds, longest_seconds }) =
            forecast.range()
        else {
            panic!("{forecast:?}")
        };
        [shortest_seconds, expected_seconds, longest_seconds].map(|it| (it * 10.0).round() / 10.0)
    }

    #[test]
    fn the_range_contains_the_expected_time() {
        assert_eq!(range(trend(-10.0, 0.0, 0.0).forecast(1_000.0)), [100.0; 3]);
        // 1,000 / 12 and 1,000 / 8.
        assert_eq!(range(trend(-10.0, 0.0, 4.0).forecast(1_000.0)), [83.3, 100.0, 125.0]);
        let [shortest, expected, longest] = range(trend(-10.0, 200.0, 0.0).forecast(1_000.0));
        assert_eq!(expected, 100.0);
        // At the end, the depth is uncertain by sqrt(200 * 100 * 2) jobs, which take 20 s.
        assert!((shortest - 82.0).abs() < 2.0 && (longest - 122.0).abs() < 2.0);
    }

    #[test]
    fn without_a_range_the_reason_is_reported() {
        assert_eq!(trend(-10.0, 0.0, 0.0).forecast(0.0), DrainForecast::Empty);
        assert_eq!(trend(10.0, 1.0, 1.0).forecast(100.0), DrainForecast::Grows);
        let stalled = Trend { ended_per_second: 0.0, ..trend(0.0, 1.0, 1.0) };
        assert_eq!(stalled.forecast(100.0), DrainForecast::Stalled);
        // It may grow as well.
        let level = trend(-1.0, 0.0, 4.0).forecast(300.0);
        assert_eq!(level, DrainForecast::TooVariable { shortest_seconds: 100.0 });
        // 300 / 11 to 300 / 1: wider than what is reported.
        let wide = trend(-6.0, 0.0, 25.0).forecast(300.0);
        assert!(matches!(wide, DrainForecast::TooVariable { .. }), "{wide:?}");
    }

    #[test]
    fn jobs_that_come_back_take_their_time() {
        let with = |due_per_second, failing_per_second| Trend {
            retries: Retries { delay_seconds: 30.0, due_per_second, failing_per_second },
            ..trend(-10.0, 0.0, 0.0)
        };
        assert_eq!(range(with(5.0, 5.0).forecast(100.0)), [20.0; 3]);
        // Nothing that failed is due yet, but from 30 s on, half of what ends comes back.
        assert_eq!(range(with(0.0, 5.0).forecast(200.0)), [20.0; 3]);
        assert_eq!(range(with(0.0, 5.0).forecast(400.0)), [50.0; 3]);
        assert_eq!(with(0.0, 10.0).forecast(400.0), DrainForecast::Grows);
    }

    #[test]
    fn forecasts_are_described() {
        let text = |forecast: DrainForecast| forecast.describe(|seconds| format!("{seconds:.0} s"));
        assert_eq!(text(trend(-10.0, 0.0, 4.0).forecast(1_000.0)), "100 s (83 s to 125 s)");
        assert_eq!(text(trend(-10.0, 0.0, 0.0).forecast(1_000.0)), "100 s");
        assert_eq!(text(DrainForecast::default()), "not enough data, measured for 0 s");
        let json = serde_json::to_string(&DrainForecast::TooVariable { shortest_seconds: 1.5 });
        assert_eq!(json.unwrap(), r#"{"state":"too_variable","shortest_seconds":1.5}"#);
    }

    proptest::proptest! {
        #[test]
        fn every_forecast_is_ordered(
            depth in 0.0..1e9f64,
            change in -1e6..1e6f64,
            noise in 0.0..1e9f64,
            drift in 0.0..1e9f64,
            due in 0.0..1e3f64,
            failing in 0.0..1e3f64,
        ) {
            let retries = Retries { delay_seconds: 30.0, due_per_second: due, failing_per_second: failing };
            let forecast = Trend { retries, ..trend(change, noise, drift) }.forecast(depth);
            if let Some(range) = forecast.range() {
                proptest::prop_assert!(range.shortest_seconds >= 0.0);
                proptest::prop_assert!(range.shortest_seconds <= range.expected_seconds * 1.000_001);
                proptest::prop_assert!(range.expected_seconds <= range.longest_seconds * 1.000_001);
            }
        }
    }
}
