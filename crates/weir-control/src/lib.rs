//! Decides how many threads run jobs, which queues they are reserved for and which class of jobs is limited, for
//! queues whose jobs share one database.
//!
//! The crate is pure: no clock, no socket, no random numbers. A caller (the simulator, an autopilot) polls a
//! [`LoadSample`] every few seconds, passes it to [`History::record`], and applies the change that [`decide`] returns.
//!
//! - [`load`]: what one poll measures;
//! - [`controls`]: what can be changed, and what is in force;
//! - [`settings`]: the constants of the rules, with their reasons;
//! - [`history`]: recent samples, estimators and the outcomes of decisions;
//! - [`estimate`]: the sign of a covariance, slowdown, database time by class; [`work`]: what the database does;
//! - [`decide`](mod@decide): the rules, in their order; [`change`]: what they return;
//! - [`allocation`]: guarantees of queues, and which queue gets a free thread.
//!
//! Promise: at most one change per call, each with a sentence of explanation and a forecast that its outcome is
//! judged by. Without fresh data nothing changes for [`Settings::hold_for_seconds`]; then the static plan returns step
//! by step. An operator's override is never changed.

pub mod allocation;
pub mod change;
pub mod controls;
pub mod decide;
pub mod estimate;
pub mod history;
pub mod load;
pub mod settings;
pub mod work;

pub use self::change::{Change, Decision, Forecast, Measure};
pub use self::controls::{Allocation, Controls, Override};
pub use self::decide::{State, blame, decide, step_back};
pub use self::history::{History, Outcome};
pub use self::load::{ClassLoad, DatabaseLoad, LoadSample, QueueLoad, Roster, ThreadLoad};
pub use self::settings::Settings;
