//! The store of jobs in Sidekiq's layout, on a real Redis.

mod confirmed;
mod cutting_proxy;
mod hostile;
mod nodes;
mod push_memory;
pub(crate) mod rig;
mod ruby;
