//! Runs the rules of weir-control against a live system, and keeps a journal of what they did.
//!
//! - [`settings`], [`mode`]: `[autopilot]`.
//! - [`load`]: what the sources report. [`sources`]: the traits of the sources and of the actuator.
//! - [`roster`]: positions of queues and classes, in bounded memory.
//! - [`attribution`]: which class of jobs a database session belongs to.
//! - [`thread_groups`]: how a number of threads is divided among processes. [`class_estimate`]: jobs that ended by class.
//! - [`sampler`]: turns what the sources report into the rules' samples.
//! - [`in_force`], [`state_file`]: what is in force, until when, and across restarts.
//! - [`lease`]: which of several autopilots acts.
//! - [`journal`]: decisions with their outcomes, in an append-only file. [`wording`]: their sentences.
//! - [`pilot`]: the loop. [`handle`]: access from other threads. [`view`]: plain data.
//! - [`metrics`]: the metrics of all of it.
//!
//! Promise: in `advise` nothing changes. In `on` at most one value changes at a time, each change is in the journal
//! before it is carried out, and every limit ends by itself if it is not renewed. Without fresh data, or without the lease,
//! nothing changes for `hold_for`; then the limits end step by step. Of all autopilots that share a lease, one acts.

pub mod attribution;
pub mod class_estimate;
pub mod handle;
pub mod in_force;
pub mod journal;
pub mod lease;
pub mod load;
pub mod metrics;
pub mod mode;
pub mod pilot;
pub mod roster;
pub mod sampler;
pub mod settings;
pub mod sources;
pub mod state_file;
pub mod thread_groups;
pub mod view;
pub mod wording;

pub use self::handle::{AutopilotHandle, CommandError};
pub use self::mode::{JobSystem, ManagedSystem, Mode, WatchedSystem};
pub use self::pilot::{Autopilot, AutopilotParts};
pub use self::settings::{AutopilotLimits, AutopilotSettings};
