//! The work that the database does: what jobs that ended would have taken in an idle one.

use std::collections::VecDeque;

/// The work of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkSample {
    /// Its end.
    pub at_seconds: f64,
    /// How long it took.
    pub span_seconds: f64,
    /// Seconds in an idle database of the jobs that ended.
    pub work: f64,
    /// The sum of their squares: the variance of the work.
    pub squares: f64,
}

/// Samples of the work done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkWindow {
    samples: VecDeque<WorkSample>,
}

/// Longer than any outcome is awaited.
const WORK_SECONDS: f64 = 300.0;

impl WorkWindow {
    /// Adds a sample.
    pub fn add(&mut self, sample: WorkSample) {
        self.samples.retain(|it| it.at_seconds > sample.at_seconds - WORK_SECONDS);
        self.samples.push_back(sample);
    }

    /// Returns the work per second since a time, and its relative standard error.
    #[must_use]
    pub fn since(&self, seconds: f64) -> (f64, f64) {
        let samples = self.samples.iter().rev().enumerate();
        // The last one at least.
        let samples = samples
            .take_while(|(at, it)| *at == 0 || it.at_seconds - it.span_seconds >= seconds - 1e-6);
        let (mut span, mut work, mut squares) = (0.0, 0.0, 0.0);
        for (_, sample) in samples {
            span += sample.span_seconds;
            work += sample.work;
            squares += sample.squares;
        }
        (work / f64::max(span, 1e-9), squares.sqrt() / f64::max(work, 1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_since_a_time_has_its_error() {
        let mut window = WorkWindow::default();
        for at in 1..=20 {
            let at_seconds = f64::from(at) * 5.0;
            let work = if at > 10 { 40.0 } else { 5.0 };
            // Jobs of half a second: as many as make up the work.
            window.add(WorkSample { at_seconds, span_seconds: 5.0, work, squares: work * 0.5 });
        }
        let (rate, error) = window.since(50.0);
        assert!((rate - 8.0).abs() < 1e-9, "{rate}");
        // 800 jobs.
        assert!((error - 1.0 / 800_f64.sqrt()).abs() < 1e-9, "{error}");
        let (rate, _) = window.since(1_000.0);
        assert!((rate - 8.0).abs() < 1e-9, "the last sample at least: {rate}");
    }
}
