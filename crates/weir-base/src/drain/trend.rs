//! Measures the trend of a backlog from samples of its counters.
//!
//! What will happen in the time that a backlog takes to drain is estimated from how well the samples would have
//! predicted each other: for several windows, the rate before each sample is compared with the rate after it. The window
//! whose predictions were the best is used, and its errors are the range. So a queue with bursts gets a long window and
//! a wide range, one whose workers have just changed a short window, and a steady one a narrow range. The rate of the
//! completions is predicted in two ways, as it was and for each job in progress: the second way is better when
//! workers come or go, and the first one where they wait for each other.

use super::forecast::{NORMAL_QUANTILE, Retries, Trend};

/// The counters of a backlog at one time. The totals count from any start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BacklogSample {
    /// When, in seconds.
    pub at_seconds: f64,
    /// Jobs that wait.
    pub depth: f64,
    /// Jobs that began to wait, without retries.
    pub arrived: f64,
    /// Jobs that ended, also by failing.
    pub ended: f64,
    /// Jobs that failed and will be tried again.
    pub retried: f64,
    /// Retries that began to wait.
    pub returned: f64,
    /// Jobs in progress.
    pub working: f64,
}

/// Windows as shares of the time that was sampled. The rest is needed to see how well they predict.
const WINDOW_SHARES: [f64; 3] = [1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0];
/// A prediction reaches at most over this share of the time that was sampled, so that there are several.
const HORIZON_SHARE_MAX: f64 = 1.0 / 3.0;
/// Shorter windows and horizons have too few samples: in sampling intervals.
const INTERVALS_MIN: f64 = 1.5;
/// Fewer intervals between samples say nothing of chance.
const INTERVALS_OF_SERIES_MIN: usize = 4;
/// After this time a job that fails for the first time is tried again: 15 s, and up to 30 s at random (the protocol's).
pub const RETRY_DELAY_SECONDS: f64 = 30.0;
/// Rates of failures and retries are those of this time.
const RETRIES_SECONDS: f64 = 60.0;
/// The 95 % quantiles of Student's t, by degrees of freedom from 1 on: nine of ten values are between them.
const STUDENT_QUANTILES: [f64; 12] =
    [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782];

impl Trend {
    /// Measures the trend from samples, oldest first. Returns `None` if there are too few since the backlog began.
    #[must_use]
    pub fn of(samples: &[BacklogSample]) -> Option<Self> {
        let depth = samples.last()?.depth;
        let series = Series::new(since_it_was_empty(samples))?;
        let methods = [Pace::Total, Pace::PerJobInProgress];
        let methods = methods.into_iter().flat_map(|pace| WINDOW_SHARES.map(|share| (pace, share)));
        let predictions =
            methods.filter_map(|(pace, share)| series.predict(pace, share * series.seconds, depth));
        let half_width = |trend: &Self| {
            let horizon = (depth / -trend.change_per_second.min(-f64::MIN_POSITIVE)).max(1.0);
            trend.drift + trend.noise * (1.0 / trend.window_seconds + 1.0 / horizon)
        };
        predictions.min_by(|one, other| half_width(one).total_cmp(&half_width(other)))
    }
}

/// Returns the samples of the backlog. While the queue was empty, its workers had nothing to do, and the jobs that began
/// the backlog say nothing of those that come.
#[must_use]
pub fn since_it_was_empty(samples: &[BacklogSample]) -> &[BacklogSample] {
    let empty = samples.iter().rposition(|sample| sample.depth <= 0.0);
    samples.get(empty.map_or(0, |at| at + 1)..).unwrap_or_default()
}

/// How the completion rate is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// As it was.
    Total,
    /// In proportion to the jobs in progress.
    PerJobInProgress,
}

struct Series<'a> {
    samples: &'a [BacklogSample],
    /// The time of all jobs in progress until each sample.
    job_seconds: Vec<f64>,
    seconds: f64,
    /// Mean time between samples.
    interval: f64,
}

impl<'a> Series<'a> {
    fn new(samples: &'a [BacklogSample]) -> Option<Self> {
        let (first, last) = (samples.first()?, samples.last()?);
        let (seconds, intervals) = (last.at_seconds - first.at_seconds, samples.len() - 1);
        if intervals < INTERVALS_OF_SERIES_MIN || seconds <= 0.0 {
            return None;
        }
        let mut job_seconds = vec![0.0];
        let mut sum = 0.0;
        for pair in samples.windows(2) {
            let time = pair[1].at_seconds - pair[0].at_seconds;
            sum += (pair[0].working + pair[1].working) / 2.0 * time;
            job_seconds.push(sum);
        }
        Some(Self { samples, job_seconds, seconds, interval: seconds / intervals as f64 })
    }

    /// Returns the trend from the last `window` seconds, or `None` if nothing tells how good it is.
    fn predict(&self, pace: Pace, window: f64, depth: f64) -> Option<Trend> {
        let last = self.samples.len() - 1;
        let window = window.max(INTERVALS_MIN * self.interval);
        let from = self.before(last, window)?;
        let change = self.change(pace, from, last);
        let drain = if change < 0.0 { depth / -change } else { f64::INFINITY };
        let horizon =
            drain.min(self.seconds * HORIZON_SHARE_MAX).max(INTERVALS_MIN * self.interval);
        let (errors, count) = self.squared_errors(pace, window, horizon)?;
        // Predictions that overlap are not independent.
        let independent = (self.seconds / (window + horizon)).min(count);
        let events = |sample: &BacklogSample| sample.arrived.abs() + sample.ended.abs();
        let events = (events(&self.samples[last]) - events(&self.samples[0])).abs();
        // Counts of independent events have their expectation as their variance.
        let noise = events.max(1.0) / self.seconds;
        let drift = (errors - noise * (1.0 / window + 1.0 / horizon)).max(0.0);
        Some(Trend {
            change_per_second: change,
            ended_per_second: self.rate(from, last, |it| it.ended),
            window_seconds: self.time(from, last),
            noise: noise * NORMAL_QUANTILE.powi(2),
            drift: drift * student_quantile(independent).powi(2),
            retries: self.retries(),
        })
    }

    /// Returns the mean of the squared differences between the rates of change that were predicted and those that
    /// followed, and their number.
    fn squared_errors(&self, pace: Pace, window: f64, horizon: f64) -> Option<(f64, f64)> {
        let mut errors = Vec::new();
        for at in 1..self.samples.len() {
            let (Some(from), Some(to)) = (self.before(at, window), self.after(at, horizon)) else {
                continue;
            };
            errors.push((self.change(pace, from, at) - self.change(Pace::Total, at, to)).powi(2));
        }
        let count = errors.len() as f64;
        (count > 0.0).then(|| (errors.iter().sum::<f64>() / count, count))
    }

    /// Predicts the change per second from the samples between two.
    fn change(&self, pace: Pace, from: usize, to: usize) -> f64 {
        let arriving = self.rate(from, to, |it| it.arrived);
        let ending = self.rate(from, to, |it| it.ended);
        let working = (self.job_seconds[to] - self.job_seconds[from]) / self.time(from, to);
        match pace {
            Pace::PerJobInProgress if working > 0.0 => {
                arriving - ending / working * self.samples[to].working
            }
            _ => arriving - ending,
        }
    }

    fn retries(&self) -> Retries {
        let last = self.samples.len() - 1;
        let from = self.before(last, RETRIES_SECONDS).unwrap_or(0);
        let failing = self.rate(from, last, |it| it.retried);
        let returning = self.rate(from, last, |it| it.returned);
        let waiting = self.samples[last].retried - self.samples[last].returned;
        let most = failing.max(returning);
        // More may wait, for later attempts. After a start, those also come back that failed before.
        let (due_per_second, failing_per_second) = match waiting < 0.0 {
            true => (returning, most),
            false => ((waiting / RETRY_DELAY_SECONDS).min(most), failing),
        };
        Retries { delay_seconds: RETRY_DELAY_SECONDS, due_per_second, failing_per_second }
    }

    /// Returns the last sample that is about `seconds` older.
    fn before(&self, at: usize, seconds: f64) -> Option<usize> {
        let until = self.samples[at].at_seconds - seconds + self.interval / 2.0;
        self.samples[..at].partition_point(|it| it.at_seconds <= until).checked_sub(1)
    }

    /// Returns the first sample that is about `seconds` newer.
    fn after(&self, at: usize, seconds: f64) -> Option<usize> {
        let from = self.samples[at].at_seconds + seconds - self.interval / 2.0;
        let later = self.samples[at + 1..].partition_point(|it| it.at_seconds < from);
        Some(at + 1 + later).filter(|at| *at < self.samples.len())
    }

    fn time(&self, from: usize, to: usize) -> f64 {
        self.samples[to].at_seconds - self.samples[from].at_seconds
    }

    fn rate(&self, from: usize, to: usize, of: impl Fn(&BacklogSample) -> f64) -> f64 {
        (of(&self.samples[to]) - of(&self.samples[from])) / self.time(from, to)
    }
}

/// Returns the half-width of the range in standard deviations that are estimated from samples, with as many degrees of
/// freedom (Student's t). Between whole degrees it is interpolated.
#[must_use]
pub fn student_quantile(degrees: f64) -> f64 {
    let of = |degrees: usize| {
        STUDENT_QUANTILES.get(degrees.saturating_sub(1)).copied().unwrap_or(NORMAL_QUANTILE)
    };
    let whole = degrees.clamp(1.0, 100.0);
    let below = STUDENT_QUANTILES.iter().enumerate().map(|(at, _)| at + 1);
    let below = below.take_while(|degrees| *degrees as f64 <= whole).last().unwrap_or(1);
    let share = (whole - below as f64).clamp(0.0, 1.0);
    of(below) + (of(below + 1) - of(below)) * share
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::forecast::DrainForecast;

    /// Samples every five seconds: totals of arrivals and completions, and the jobs in progress.
    fn samples(totals: impl Fn(f64) -> (f64, f64, f64)) -> Vec<BacklogSample> {
        let sample = |at: u32| {
            let at_seconds = f64::from(at) * 5.0;
            let (arrived, ended, working) = totals(at_seconds);
            let depth = 10_000.0 + arrived - ended;
            BacklogSample { at_seconds, depth, arrived, ended, working, ..BacklogSample::default() }
        };
        (0..=24).map(sample).collect()
    }

    fn trend(samples: &[BacklogSample]) -> Trend {
        Trend::of(samples).expect("enough samples")
    }

    #[test]
    fn steady_rates_have_no_drift() {
        let trend = trend(&samples(|at| (at * 2.0, at * 12.0, 4.0)));
        assert!((trend.change_per_second + 10.0).abs() < 1e-9 && trend.drift == 0.0, "{trend:?}");
    }

    #[test]
    fn a_worker_that_came_counts_at_once_where_an_earlier_one_was_predicted_so() {
        // Four more jobs in progress from 60 s on, and again from 115 s of 120 on.
        let workers = |at: f64| 1.0 + f64::from(u8::from(at >= 60.0) + u8::from(at >= 115.0));
        let ended = |at: f64| 10.0 * (at + (at - 60.0).max(0.0) + (at - 115.0).max(0.0));
        let with = trend(&samples(|at| (0.0, ended(at), 4.0 * workers(at))));
        assert!((with.change_per_second + 30.0).abs() < 3.0, "{with:?}");
        let without = trend(&samples(|at| (0.0, ended(at), 0.0)));
        assert!(without.change_per_second > -25.0, "{without:?}");
    }

    #[test]
    fn the_backlog_begins_when_the_queue_was_empty_for_the_last_time() {
        let mut samples = samples(|at| (0.0, at * 10.0, 4.0));
        assert_eq!(since_it_was_empty(&samples).len(), 25);
        samples[10].depth = 0.0;
        assert_eq!(since_it_was_empty(&samples).len(), 14);
        samples[23].depth = 0.0;
        assert_eq!(Trend::of(&samples), None);
        assert_eq!(Trend::of(&[]), None);
    }

    #[test]
    fn retries_of_an_earlier_run_come_back_as_they_did() {
        let mut samples = samples(|at| (0.0, at * 10.0, 4.0));
        for sample in &mut samples {
            sample.returned = sample.at_seconds * 3.0;
        }
        let Retries { due_per_second, .. } = trend(&samples).retries;
        assert!((due_per_second - 3.0).abs() < 1e-9, "{due_per_second}");
    }

    #[test]
    fn quantiles_lie_between_those_of_whole_degrees() {
        assert_eq!(student_quantile(0.3), 6.314);
        assert!((student_quantile(1.5) - 4.617).abs() < 1e-9);
        assert_eq!(student_quantile(2.0), 2.920);
        assert_eq!(student_quantile(50.0), NORMAL_QUANTILE);
    }

    proptest::proptest! {
        #[test]
        fn any_samples_have_a_forecast(
            steps in proptest::collection::vec((0.0..100.0f64, 0.0..1e6f64, 0.0..1e6f64, 0.0..100.0f64), 0..40),
        ) {
            let mut now = BacklogSample::default();
            let mut samples = Vec::new();
            for (time, arrived, ended, working) in steps {
                now.at_seconds += time;
                now.arrived += arrived;
                now.ended += ended;
                (now.retried, now.returned) = (now.retried + ended / 2.0, now.returned + arrived / 3.0);
                now.working = working;
                now.depth = (now.arrived - now.ended).max(0.0);
                samples.push(now);
            }
            if let Some(trend) = Trend::of(&samples) {
                let forecast = trend.forecast(now.depth);
                proptest::prop_assert!(trend.drift >= 0.0 && trend.noise >= 0.0, "{trend:?}");
                if let DrainForecast::Drains(range) = forecast {
                    proptest::prop_assert!(range.longest_seconds.is_finite(), "{forecast:?}");
                }
            }
        }
    }
}
