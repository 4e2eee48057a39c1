//! The simulation: events in the order of time, from the arrival of a job to its end.
//!
//! A job waits in its queue for a thread. It then waits for other systems, computes (sharing the processors of its
//! group), waits for a connection of the pool and for its lock, works in the database (sharing it with all other
//! sessions), and may keep its transaction open. A job that fails is retried as Sidekiq does it.

mod dispatch;
mod events;
mod histogram;
mod integral;
mod jobs;
mod observe;
pub(crate) mod random;
mod record;
mod run;
mod shared;
mod simulation;
mod waiting;

pub use self::histogram::Waits;
pub use self::record::{ClassRecord, DecisionRecord, Point, QueueRecord, Record};
use self::simulation::Simulation;
use crate::policy::Policy;
use crate::scenario::Scenario;

/// Simulates a scenario under a policy. The seed decides about all random numbers.
#[must_use]
pub fn simulate(scenario: &Scenario, policy: &mut dyn Policy, seed: u64) -> Record {
    Simulation::new(scenario, policy, seed).run()
}
