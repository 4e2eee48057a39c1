//! Simulates job queues, their workers and the database behind them, to compare policies.
//!
//! - [`scenario`]: the file that describes a system and what happens to it;
//! - [`engine`]: the simulation, deterministic by its seed;
//! - [`plant`]: what a policy knows and may change;
//! - [`policy`]: fixed layouts, the controller of weir-control, and other systems' published rules;
//! - [`layout`]: other fixed layouts for the same threads;
//! - [`mod@surge`]: random systems that are hit by a surge; [`mod@study`]: policies compared on them;
//! - [`report`]: tables, charts and a page.
//!
//! The crate uses no clock, file or socket. All policies meet the same jobs at the same times: arrivals and run times
//! depend on the seed only.

pub mod engine;
pub mod layout;
pub mod plant;
pub mod policy;
pub mod report;
pub mod scenario;
pub mod study;
pub mod surge;

pub use self::engine::{Record, simulate};
pub use self::policy::Policy;
pub use self::scenario::{Scenario, ScenarioError};
