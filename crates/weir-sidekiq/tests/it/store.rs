//! The store of jobs in Sidekiq's layout, on a real Redis.

mod bounds;
mod class_metrics;
pub(crate) mod cluster;
mod cluster_failover;
mod confirmed;
mod crons;
mod cutting_proxy;
mod dead;
mod fencing;
mod full;
mod hostile;
mod limits;
mod measured;
mod moving;
mod node_reports;
mod nodes;
mod odd_keys;
mod one_address;
mod pages;
mod push_memory;
pub(crate) mod rig;
mod ruby;
mod sharded;
pub(crate) mod sharded_rig;
mod types;
mod unique;
mod waiting;
