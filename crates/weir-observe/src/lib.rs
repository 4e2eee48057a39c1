//! Fills an [`Observation`] from the servers that hold jobs and from this machine. Read-only.
//!
//! - [`observe`]: two looks, some seconds apart, at everything that was named;
//! - `jobs`, `redis`: what a look at Sidekiq means in the advisor's words;
//! - `machine`: cores and memory, from the kernel.
//!
//! Promise: a source that is absent, refuses or does not answer leaves its facts unknown, with what
//! it said and what would let it be seen; it keeps no other source from being seen.
//!
//! [`Observation`]: weir_advisor::Observation

mod jobs;
mod machine;
mod observe;
mod redis;

pub use self::observe::{Sources, observe};
