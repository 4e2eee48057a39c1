//! The simulator against known results, and what it promises.

mod incidents;
mod policies;
mod promises;
mod queueing;
mod system;
