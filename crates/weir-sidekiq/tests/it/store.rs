//! The store of jobs in Sidekiq's layout, on a real Redis.

mod hostile;
mod nodes;
pub(crate) mod rig;
mod ruby;
mod sharded;
pub(crate) mod sharded_rig;
