//! The store of jobs in Sidekiq's layout, on a real Redis.

mod bounds;
mod class_metrics;
mod confirmed;
mod cutting_proxy;
mod fencing;
mod hostile;
mod measured;
mod node_reports;
mod nodes;
mod odd_keys;
mod pages;
mod push_memory;
pub(crate) mod rig;
mod ruby;
mod sharded;
pub(crate) mod sharded_rig;
mod waiting;
