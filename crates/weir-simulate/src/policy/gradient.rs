//! Netflix' `Gradient2Limit`, on the number of threads.
//!
//! Source: `concurrency-limits-core/.../limit/Gradient2Limit.java` of Netflix/concurrency-limits: initial and least limit
//! 20, at most 200, smoothing 0.2, a queue of 4, a long window of 600 samples of which the first 10 are averaged, in
//! windows of 1 s.

use weir_control::LoadSample;

use super::{Policy, RunTimes, set_threads};
use crate::plant::{Actuators, Plant};

const INITIAL: f64 = 20.0;
const LEAST: f64 = 20.0;
const MOST: f64 = 200.0;
const SMOOTHING: f64 = 0.2;
const QUEUE: f64 = 4.0;
const LONG_WINDOW: f64 = 600.0;
const WARM_UP: u32 = 10;

/// `Gradient2Limit`.
#[derive(Debug)]
pub struct Gradient2 {
    is_tuned: bool,
    limit: f64,
    long: f64,
    samples: u32,
    times: RunTimes,
}

impl Gradient2 {
    /// Creates a limit: with the published constants, or between the number of queues and the most threads of the
    /// system, beginning with its static plan.
    #[must_use]
    pub fn new(is_tuned: bool) -> Self {
        Self { is_tuned, limit: INITIAL, long: 0.0, samples: 0, times: RunTimes::default() }
    }

    /// Returns the long-term average (`ExpAvgMeasurement`).
    fn update_long(&mut self, run_seconds: f64) -> f64 {
        self.samples += 1;
        if self.samples <= WARM_UP {
            self.long += (run_seconds - self.long) / f64::from(self.samples);
        } else {
            let factor = 2.0 / (LONG_WINDOW + 1.0);
            self.long = self.long * (1.0 - factor) + run_seconds * factor;
        }
        self.long
    }

    fn update(&mut self, run_seconds: f64, in_flight: f64, least: f64, most: f64) {
        let long = self.update_long(run_seconds);
        if long / run_seconds > 2.0 {
            self.long *= 0.9;
        }
        if in_flight < self.limit / 2.0 {
            return;
        }
        let gradient = (long / run_seconds).clamp(0.5, 1.0);
        let next = self.limit * gradient + QUEUE;
        self.limit = (self.limit * (1.0 - SMOOTHING) + next * SMOOTHING).clamp(least, most);
    }
}

impl Policy for Gradient2 {
    fn interval_seconds(&self) -> f64 {
        1.0
    }

    fn prepare(&mut self, plant: &Plant, actuators: &mut Actuators) {
        if self.is_tuned {
            self.limit = f64::from(plant.static_threads());
        }
        set_threads(whole(self.limit), plant, actuators);
    }

    fn tick(
        &mut self,
        _now_seconds: f64,
        sample: Option<&LoadSample>,
        plant: &Plant,
        actuators: &mut Actuators,
    ) -> Vec<String> {
        let Some(sample) = sample else { return Vec::new() };
        let Some(run_seconds) = self.times.add(sample) else { return Vec::new() };
        let (least, most) = bounds(self.is_tuned, plant);
        let before = whole(self.limit);
        self.update(run_seconds, f64::from(sample.threads.busy), least, most);
        let after = whole(self.limit);
        set_threads(after, plant, actuators);
        if after == before {
            Vec::new()
        } else {
            vec![format!("limit of threads from {before} to {after}")]
        }
    }
}

fn bounds(is_tuned: bool, plant: &Plant) -> (f64, f64) {
    if is_tuned {
        (plant.roster.queues.len() as f64, f64::from(plant.threads_max()))
    } else {
        (LEAST, MOST)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a limit of threads, from 1 up"
)]
fn whole(limit: f64) -> u32 {
    limit as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_grows_by_the_queue_and_shrinks_by_the_gradient() {
        let mut limit = Gradient2::new(false);
        (0..20).for_each(|_| limit.update(0.1, 20.0, LEAST, MOST));
        // Each step adds 0.2 × 4 while the run time stays the same.
        assert!((limit.limit - (20.0 + 20.0 * 0.8)).abs() < 1e-9, "{}", limit.limit);
        let before = limit.limit;
        limit.update(1.0, 40.0, LEAST, MOST);
        // The gradient is at least a half.
        assert!((limit.limit - (0.8 * before + 0.2 * (before / 2.0 + 4.0))).abs() < 0.1);
        limit.update(0.1, 1.0, LEAST, MOST);
        assert!(limit.limit < before, "a limit that is not used does not grow");
    }
}
