//! The store of jobs in Sidekiq's layout, on a real Redis.

mod bounds;
mod fencing;
mod hostile;
mod nodes;
mod odd_keys;
pub(crate) mod rig;
mod ruby;
