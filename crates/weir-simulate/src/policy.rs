//! Policies: who decides about threads, processes and limits while a simulation runs.

mod autopilot;
mod fixed;
mod gitlab;
mod gradient;
mod kind;
mod replicas;
mod vegas;

use weir_control::LoadSample;

pub use self::autopilot::Autopilot;
pub use self::fixed::Static;
pub use self::gitlab::GitLab;
pub use self::gradient::Gradient2;
pub use self::kind::{PolicyKind, UnknownPolicyError};
pub use self::replicas::{ReplicaMetric, Replicas};
pub use self::vegas::Vegas;
use crate::plant::{Actuators, Plant};

/// A policy.
pub trait Policy {
    /// Returns how often it is asked.
    fn interval_seconds(&self) -> f64;

    /// Sets what is in force from the beginning.
    fn prepare(&mut self, _plant: &Plant, _actuators: &mut Actuators) {}

    /// Changes what is in force. Without a sample the observer sees nothing. Returns a sentence for each change.
    fn tick(
        &mut self,
        now_seconds: f64,
        sample: Option<&LoadSample>,
        plant: &Plant,
        actuators: &mut Actuators,
    ) -> Vec<String>;
}

/// Sets the limit of threads, and starts the processes that it needs.
fn set_threads(threads: u32, plant: &Plant, actuators: &mut Actuators) {
    actuators.threads = Some(threads);
    let plan = plant.static_threads().max(1);
    for (index, group) in plant.managed() {
        let share = u64::from(threads.max(plan)) * u64::from(group.processes);
        let processes = u32::try_from(share.div_ceil(u64::from(plan))).unwrap_or(u32::MAX);
        actuators.processes[index] = processes.clamp(group.processes, group.processes_max);
    }
}

/// Collects the run times of the jobs that ended, until there are enough of them for an average.
#[derive(Clone, Copy, Debug, Default)]
struct RunTimes {
    seconds: f64,
    jobs: u64,
}

/// `WindowedLimit.windowSize`: fewer samples make no window.
const WINDOW_JOBS: u64 = 10;

impl RunTimes {
    /// Returns the average of a complete window.
    fn add(&mut self, sample: &LoadSample) -> Option<f64> {
        self.seconds += sample.classes.iter().map(|class| class.run_seconds).sum::<f64>();
        self.jobs += sample.classes.iter().map(|class| class.finished).sum::<u64>();
        if self.jobs < WINDOW_JOBS {
            return None;
        }
        let average = self.seconds / self.jobs as f64;
        *self = Self::default();
        Some(average)
    }
}
