//! Netflix' `VegasLimit`, on the number of threads.
//!
//! Source: `concurrency-limits-core/.../limit/VegasLimit.java` of Netflix/concurrency-limits: initial limit 20, at most
//! 1,000, smoothing 1, alpha = 3 × log10, beta = 6 × log10, threshold, increase and decrease log10 of the limit, and a new
//! least run time after 30 × limit samples, on average three quarters of that.

use fastrand::Rng;
use weir_control::LoadSample;

use super::{Policy, RunTimes, set_threads};
use crate::plant::{Actuators, Plant};

const INITIAL: f64 = 20.0;
const MOST: f64 = 1_000.0;
const PROBE: f64 = 30.0;

/// `VegasLimit`.
#[derive(Debug)]
pub struct Vegas {
    is_tuned: bool,
    limit: f64,
    least_seconds: f64,
    samples: f64,
    jitter: f64,
    rng: Rng,
    times: RunTimes,
}

impl Vegas {
    /// Creates a limit: with the published constants, or at most the threads of the system, beginning with its static
    /// plan.
    #[must_use]
    pub fn new(is_tuned: bool, seed: u64) -> Self {
        let mut rng = crate::engine::random::stream(seed, 0x0076_6567_6173);
        let jitter = 0.5 + rng.f64() / 2.0;
        Self {
            is_tuned,
            limit: INITIAL,
            least_seconds: 0.0,
            samples: 0.0,
            jitter,
            rng,
            times: RunTimes::default(),
        }
    }

    fn update(&mut self, run_seconds: f64, in_flight: f64, most: f64) {
        self.samples += 1.0;
        if self.samples >= self.jitter * PROBE * self.limit {
            self.jitter = 0.5 + self.rng.f64() / 2.0;
            self.samples = 0.0;
            self.least_seconds = run_seconds;
            return;
        }
        if self.least_seconds <= 0.0 || run_seconds < self.least_seconds {
            self.least_seconds = run_seconds;
            return;
        }
        if in_flight * 2.0 < self.limit {
            return;
        }
        let log = self.limit.log10().floor().max(1.0);
        let queue = (self.limit * (1.0 - self.least_seconds / run_seconds)).ceil();
        let next = match queue {
            queue if queue <= log => self.limit + 6.0 * log,
            queue if queue < 3.0 * log => self.limit + log,
            queue if queue > 6.0 * log => self.limit - log,
            _ => self.limit,
        };
        self.limit = next.clamp(1.0, most);
    }
}

impl Policy for Vegas {
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
        let most = if self.is_tuned { f64::from(plant.threads_max()) } else { MOST };
        let before = whole(self.limit);
        self.update(run_seconds, f64::from(sample.threads.busy), most);
        let after = whole(self.limit);
        set_threads(after, plant, actuators);
        if after == before {
            Vec::new()
        } else {
            vec![format!("limit of threads from {before} to {after}")]
        }
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
    fn limit_grows_without_a_queue_and_shrinks_with_one() {
        let mut limit = Vegas::new(false, 1);
        limit.update(0.1, 20.0, MOST);
        limit.update(0.1, 20.0, MOST);
        assert!((limit.limit - 26.0).abs() < 1e-9, "6 × log10(20), as a whole number");
        limit.update(0.2, 26.0, MOST);
        assert!((limit.limit - 25.0).abs() < 1e-9, "half of the threads queue");
    }
}
