//! The store of jobs in Sidekiq's layout, on a real Redis.

mod class_metrics;
mod hostile;
mod measured;
mod nodes;
pub(crate) mod rig;
mod ruby;
