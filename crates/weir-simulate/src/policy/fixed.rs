//! Layouts that never change.

use weir_control::{Allocation, LoadSample};

use super::{Policy, set_threads};
use crate::plant::{Actuators, Plant};

/// A layout that never changes: the one of the scenario, with a limit of threads, or with reserved threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Static {
    /// All threads; `None`: those of the scenario.
    pub threads: Option<u32>,
    /// Reserved threads, instead of the order of the scenario.
    pub allocation: Option<Allocation>,
}

impl Policy for Static {
    fn interval_seconds(&self) -> f64 {
        60.0
    }

    fn prepare(&mut self, plant: &Plant, actuators: &mut Actuators) {
        if let Some(threads) = self.threads {
            set_threads(threads, plant, actuators);
        }
        actuators.allocation.clone_from(&self.allocation);
    }

    fn tick(
        &mut self,
        _now_seconds: f64,
        _sample: Option<&LoadSample>,
        _plant: &Plant,
        _actuators: &mut Actuators,
    ) -> Vec<String> {
        Vec::new()
    }
}
