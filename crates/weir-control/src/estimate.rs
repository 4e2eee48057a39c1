//! Estimators over samples.

use std::collections::VecDeque;

/// Sums that forget: after `seconds`, a share of 1/e is left of each value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    /// Weighted seconds of database sessions.
    pub session_seconds: f64,
    /// Weighted seconds of sessions that were idle in a transaction.
    pub idle_seconds: f64,
    /// Weighted number of jobs that ended.
    pub finished: f64,
    /// Weighted seconds that they kept threads busy.
    pub run_seconds: f64,
    /// Weighted number of jobs that arrived.
    pub arrivals: f64,
    /// Weighted time.
    pub span_seconds: f64,
}

impl Recent {
    /// Adds values of a sample to what is left of those before.
    pub fn add(&mut self, new: Recent, seconds: f64) {
        let left = (-new.span_seconds / seconds).exp();
        self.session_seconds = self.session_seconds * left + new.session_seconds;
        self.idle_seconds = self.idle_seconds * left + new.idle_seconds;
        self.finished = self.finished * left + new.finished;
        self.run_seconds = self.run_seconds * left + new.run_seconds;
        self.arrivals = self.arrivals * left + new.arrivals;
        self.span_seconds = self.span_seconds * left + new.span_seconds;
    }

    /// Returns the average number of sessions.
    #[must_use]
    pub fn sessions(&self) -> f64 {
        self.session_seconds / self.span_seconds.max(1e-9)
    }

    /// Returns the average number of sessions, those that are idle in a transaction included.
    #[must_use]
    pub fn held_sessions(&self) -> f64 {
        (self.session_seconds + self.idle_seconds) / self.span_seconds.max(1e-9)
    }

    /// Returns the jobs that ended per second.
    #[must_use]
    pub fn finish_rate(&self) -> f64 {
        self.finished / self.span_seconds.max(1e-9)
    }

    /// Returns the jobs that arrived per second.
    #[must_use]
    pub fn arrival_rate(&self) -> f64 {
        self.arrivals / self.span_seconds.max(1e-9)
    }

    /// Returns the seconds that a job spends in the database. Also while the number of jobs in progress changes:
    /// session seconds per end of a job estimate the mean of exponential times without a bias.
    #[must_use]
    pub fn database_seconds(&self) -> Option<f64> {
        (self.finished >= JOBS_LEAST).then(|| self.session_seconds / self.finished)
    }

    /// Returns the seconds that a job keeps a thread busy.
    #[must_use]
    pub fn mean_run_seconds(&self) -> Option<f64> {
        (self.finished >= JOBS_LEAST).then(|| self.run_seconds / self.finished)
    }
}

/// Fewer jobs say nothing about the average.
const JOBS_LEAST: f64 = 5.0;

/// How two values that were sampled together relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// They rise and fall together.
    Positive,
    /// One does not depend on the other, or the samples do not tell.
    Flat,
    /// One falls when the other rises.
    Negative,
}

/// Samples of a covariance: two minutes.
const COVARIANCE_SAMPLES: usize = 24;
/// Correlations below this are chance: with 24 samples, 0.34 has a probability of 10 %.
const CORRELATION_LEAST: f64 = 0.35;

/// The covariance of jobs in flight and throughput over the last samples. Its sign tells on which side of the peak a
/// system is, where latency tells only that it is not idle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Covariance {
    samples: VecDeque<(f64, f64)>,
}

impl Covariance {
    /// Adds a sample.
    pub fn add(&mut self, in_flight: f64, throughput: f64) {
        self.samples.push_back((in_flight, throughput));
        if self.samples.len() > COVARIANCE_SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Returns the sign of the covariance, if the correlation is beyond chance.
    #[must_use]
    pub fn sign(&self) -> Sign {
        let count = self.samples.len() as f64;
        if self.samples.len() < COVARIANCE_SAMPLES / 2 {
            return Sign::Flat;
        }
        let mean =
            |value: fn(&(f64, f64)) -> f64| self.samples.iter().map(value).sum::<f64>() / count;
        let (x, y) = (mean(|it| it.0), mean(|it| it.1));
        let sum = |value: &dyn Fn(&(f64, f64)) -> f64| self.samples.iter().map(value).sum::<f64>();
        let covariance = sum(&|it| (it.0 - x) * (it.1 - y));
        let spread = (sum(&|it| (it.0 - x).powi(2)) * sum(&|it| (it.1 - y).powi(2))).sqrt();
        match covariance / spread.max(1e-12) {
            correlation if correlation > CORRELATION_LEAST => Sign::Positive,
            correlation if correlation < -CORRELATION_LEAST => Sign::Negative,
            _ => Sign::Flat,
        }
    }
}

/// Rounds of coordinate descent: with 40 classes the remaining error is below 1 %.
const ROUNDS: usize = 100;
/// Pulls unknown coefficients towards 0.
const RIDGE: f64 = 1e-3;

/// Database sessions per job in progress, by class, and how much of the sessions they explain.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// Sessions for each job in progress of a class.
    pub sessions_per_job: Vec<f64>,
    /// R² of the regression, 0 to 1: the confidence.
    pub confidence: f64,
}

/// Attributes active sessions to classes where neither query comments nor application names do: a non-negative
/// regression of the sessions on the jobs in progress by class. Each sample has the jobs in progress of all classes, and
/// the active sessions. `None` with fewer samples than twice the classes.
#[must_use]
pub fn attribute(samples: &[(Vec<f64>, f64)]) -> Option<Attribution> {
    let classes = samples.first()?.0.len();
    if classes == 0 || samples.len() < 2 * classes {
        return None;
    }
    let mut coefficients = vec![0.0; classes];
    let mut residuals: Vec<f64> = samples.iter().map(|(_, sessions)| *sessions).collect();
    for _ in 0..ROUNDS {
        for class in 0..classes {
            let (mut product, mut square) = (0.0, RIDGE);
            for ((jobs, _), residual) in samples.iter().zip(&residuals) {
                product += jobs[class] * (residual + jobs[class] * coefficients[class]);
                square += jobs[class] * jobs[class];
            }
            let better = (product / square).max(0.0);
            let change = better - coefficients[class];
            for ((jobs, _), residual) in samples.iter().zip(&mut residuals) {
                *residual -= change * jobs[class];
            }
            coefficients[class] = better;
        }
    }
    let mean = samples.iter().map(|(_, sessions)| sessions).sum::<f64>() / samples.len() as f64;
    let total: f64 = samples.iter().map(|(_, sessions)| (sessions - mean).powi(2)).sum();
    let left: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let confidence = if total > 0.0 { (1.0 - left / total).clamp(0.0, 1.0) } else { 0.0 };
    Some(Attribution { sessions_per_job: coefficients, confidence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covariance_has_the_sign_of_the_slope() {
        let sign = |throughput: &dyn Fn(f64) -> f64| {
            let mut covariance = Covariance::default();
            (0..24).for_each(|it| {
                let in_flight = f64::from(it * 7 % 24);
                covariance.add(in_flight, throughput(in_flight));
            });
            covariance.sign()
        };
        assert_eq!(sign(&|in_flight| in_flight * 2.0), Sign::Positive);
        assert_eq!(sign(&|in_flight| 100.0 - in_flight), Sign::Negative);
        assert_eq!(sign(&|_| 5.0), Sign::Flat);
        assert_eq!(sign(&|in_flight| (in_flight * 77.0).sin()), Sign::Flat);
    }

    #[test]
    fn recent_values_are_forgotten() {
        let mut recent = Recent::default();
        let sample = |sessions| Recent {
            session_seconds: sessions * 5.0,
            finished: 10.0,
            span_seconds: 5.0,
            ..Recent::default()
        };
        (0..100).for_each(|_| recent.add(sample(40.0), 15.0));
        assert!((recent.sessions() - 40.0).abs() < 1e-9);
        (0..20).for_each(|_| recent.add(sample(10.0), 15.0));
        assert!((recent.sessions() - 10.0).abs() < 0.1, "{}", recent.sessions());
        assert!((recent.finish_rate() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn regression_finds_the_class_that_uses_the_database() {
        let sample = |at: u32| {
            let jobs = vec![f64::from(at * 5 % 17), f64::from(at * 11 % 13), f64::from(at * 3 % 7)];
            let sessions = jobs[0] * 0.9 + jobs[1] * 0.1;
            (jobs, sessions)
        };
        let samples: Vec<_> = (0..40).map(sample).collect();
        let found = attribute(&samples).unwrap();
        let expected = [0.9, 0.1, 0.0];
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 0.02;
        assert!(found.sessions_per_job.iter().zip(&expected).all(is_near), "{found:?}");
        assert!(found.confidence > 0.99);
        assert_eq!(attribute(&samples[..5]), None, "too few samples");
    }

    #[test]
    fn sessions_that_no_class_explains_have_no_confidence() {
        let sample = |at: u32| {
            let sessions = f64::from(at.wrapping_mul(2_654_435_761) >> 24);
            (vec![f64::from(at * 5 % 17), f64::from(at * 11 % 13)], sessions)
        };
        let found = attribute(&(0..60).map(sample).collect::<Vec<_>>()).unwrap();
        assert!(found.confidence < 0.7, "{found:?}");
    }
}
