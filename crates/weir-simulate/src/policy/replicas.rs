//! Scalers of replicas, as Kubernetes has them: by the length of a list (KEDA) or by a latency (HPA).
//!
//! Sources: <https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/> (sync period 15 s, tolerance
//! 0.1, per 15 s at most twice as many or 4 more, the highest recommendation of 300 s when scaling down), and
//! <https://keda.sh/docs/latest/scalers/redis-lists/> (`listLength` 5 per replica, `pollingInterval` 30 s).

use std::collections::VecDeque;

use weir_control::LoadSample;

use super::Policy;
use crate::plant::{Actuators, Plant};

const SYNC_SECONDS: f64 = 15.0;
const TOLERANCE: f64 = 0.1;
const STABILIZATION_SECONDS: f64 = 300.0;
const UP_FACTOR: u32 = 2;
const UP_REPLICAS: u32 = 4;
const LIST_LENGTH: f64 = 5.0;

/// What the number of replicas follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaMetric {
    /// Jobs that wait, 5 per replica.
    Length,
    /// The latency of the queue that is closest to its target, or furthest past it.
    Latency,
}

/// A scaler of replicas. Never fewer than in the static plan.
#[derive(Debug)]
pub struct Replicas {
    metric: ReplicaMetric,
    /// Recommendations with their times, by group.
    recommended: Vec<VecDeque<(f64, u32)>>,
}

impl Replicas {
    /// Creates a scaler.
    #[must_use]
    pub fn new(metric: ReplicaMetric) -> Self {
        Self { metric, recommended: Vec::new() }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number; more replicas than 32 bits hold are limited to those of the group"
    )]
    fn desired(&self, sample: &LoadSample, plant: &Plant, group: usize, replicas: u32) -> u32 {
        let queues = plant.groups[group].queues.iter().map(|(queue, _)| *queue);
        let desired = match self.metric {
            ReplicaMetric::Length => {
                let waiting: u64 = queues.map(|queue| sample.queues[queue].waiting).sum();
                waiting as f64 / LIST_LENGTH
            }
            ReplicaMetric::Latency => {
                let ratio = |queue: usize| {
                    sample.queues[queue].oldest_age_seconds
                        / plant.roster.queues[queue].target_seconds
                };
                f64::from(replicas) * queues.map(ratio).fold(0.0, f64::max)
            }
        };
        let is_tolerated = (desired / f64::from(replicas.max(1)) - 1.0).abs() <= TOLERANCE;
        if is_tolerated { replicas } else { desired.ceil() as u32 }
    }
}

impl Policy for Replicas {
    fn interval_seconds(&self) -> f64 {
        SYNC_SECONDS
    }

    fn tick(
        &mut self,
        now_seconds: f64,
        sample: Option<&LoadSample>,
        plant: &Plant,
        actuators: &mut Actuators,
    ) -> Vec<String> {
        let Some(sample) = sample else { return Vec::new() };
        self.recommended.resize(plant.groups.len(), VecDeque::new());
        let mut changes = Vec::new();
        for (index, group) in plant.managed() {
            let replicas = actuators.processes[index];
            let desired = self.desired(sample, plant, index, replicas);
            let desired = desired.clamp(group.processes, group.processes_max);
            let recommended = &mut self.recommended[index];
            recommended.push_back((now_seconds, desired));
            recommended.retain(|(at, _)| now_seconds - at <= STABILIZATION_SECONDS);
            let next = if desired > replicas {
                desired.min((replicas * UP_FACTOR).max(replicas + UP_REPLICAS))
            } else {
                let highest = recommended.iter().map(|(_, desired)| *desired).max();
                highest.unwrap_or(desired).min(replicas)
            };
            if next != replicas {
                changes.push(format!("processes of {} from {replicas} to {next}", group.name));
                actuators.processes[index] = next;
            }
        }
        changes
    }
}
