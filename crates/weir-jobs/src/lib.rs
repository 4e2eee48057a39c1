//! The job server.
//!
//! - [`model`], [`settings`], [`allocation`]: the words, parsed once.
//! - [`store`]: every whole operation on jobs, as a trait.
//! - [`view`]: what others may see, as plain data.

pub mod allocation;
pub mod model;
pub mod settings;
pub mod store;
pub mod view;
