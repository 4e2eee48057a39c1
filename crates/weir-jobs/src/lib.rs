//! The job server.
//!
//! - [`model`], [`settings`], [`allocation`]: the words, parsed once.
//! - [`job`], [`job_text`], [`stamp`]: a pushed job's text, and what becomes of it.
//! - [`rules`], [`dispatch`]: what a failure leads to, which queue serves next. Pure.
//! - [`store`]: every whole operation on jobs, as a trait.
//! - [`memory`]: the store that forgets.
//! - [`view`]: what others may see, as plain data.

pub mod allocation;
pub mod metrics;
pub mod dispatch;
pub mod engine;
pub mod filter;
pub mod job;
pub mod job_text;
pub mod memory;
pub mod model;
pub mod rules;
pub mod settings;
pub mod stamp;
pub mod store;
pub mod view;
mod waiters;
