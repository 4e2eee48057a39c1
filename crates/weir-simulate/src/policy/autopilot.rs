//! The controller of weir-control: the same functions as those of the autopilot.

use weir_control::{Controls, History, LoadSample, Settings, State, decide};

use super::{Policy, set_threads};
use crate::plant::{Actuators, Plant};

/// The controller.
#[derive(Debug, Default)]
pub struct Autopilot {
    settings: Settings,
    history: History,
    controls: Controls,
}

impl Autopilot {
    /// Creates a controller with other constants than the default ones.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }
}

impl Policy for Autopilot {
    fn interval_seconds(&self) -> f64 {
        self.settings.interval_seconds
    }

    fn tick(
        &mut self,
        now_seconds: f64,
        sample: Option<&LoadSample>,
        plant: &Plant,
        actuators: &mut Actuators,
    ) -> Vec<String> {
        if let Some(sample) = sample {
            self.history.record(sample.clone(), &plant.roster, &self.settings);
        }
        let state = State {
            now_seconds,
            roster: &plant.roster,
            controls: &self.controls,
            static_threads: plant.static_threads(),
            thread_steps: &[],
        };
        let Some(decision) = decide(&state, &self.settings, &self.history) else {
            return Vec::new();
        };
        decision.change.apply(&mut self.controls);
        if let Some(threads) = self.controls.threads {
            set_threads(threads, plant, actuators);
        }
        actuators.allocation.clone_from(&self.controls.allocation);
        for (class, cap) in actuators.caps.iter_mut().enumerate() {
            *cap = self.controls.caps.get(&class).copied();
        }
        let reason = decision.reason.clone();
        self.history.note(decision);
        vec![reason]
    }
}
