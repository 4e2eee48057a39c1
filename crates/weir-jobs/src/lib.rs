//! The job server.
//!
//! - [`model`], [`settings`], [`allocation`]: the words, parsed once.
//! - [`job`], [`job_text`], [`stamp`]: a pushed job's text, and what becomes of it.
//! - [`rules`], [`dispatch`]: what a failure leads to, which queue serves next. Pure.
//! - [`store`]: every whole operation on jobs, as a trait.
//! - [`memory`]: the store that forgets.
//! - `faktory`: the wire protocol. `workers`: the connected worker processes.
//! - [`server`]: the thread that owns a store and serves it. [`handle`]: the way in from elsewhere.
//! - [`view`]: what others may see, as plain data.
//! - [`salvage`]: jobs in what was set aside of a damaged log.
//! - [`metrics`]: everything that is counted.

pub mod allocation;
pub mod dispatch;
pub mod engine;
mod faktory;
pub mod filter;
pub mod handle;
pub mod job;
pub mod job_text;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod rules;
pub mod salvage;
pub mod server;
pub mod settings;
pub mod stamp;
pub mod store;
pub mod view;
mod waiters;
mod workers;
