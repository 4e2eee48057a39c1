//! What is wrong with a job system, how long until it is over, and which line to change.
//!
//! Pure: an [`Observation`] goes in, [`Advice`] comes out. Who observed it, and how, is not known
//! here; neither are sockets, clocks or files.
//!
//! - [`observation`]: what may be known, each fact with the reason why it is not;
//! - [`flow`]: growth and time to drain from two looks at a queue;
//! - [`forecast`]: when all queues are empty, by who serves them;
//! - [`rules`]: one file for each thing that can be wrong;
//! - `guard`: no line is printed that would leave a queue unserved;
//! - [`finding`], [`advice`]: what is said about it;
//! - [`wording`]: figures as people read them; [`shell`], [`sql`]: commands that can be pasted;
//! - [`levels`]: what was worked off with how many threads;
//! - [`mod@figures`]: all of it as metrics;
//! - [`mod@plan`]: processes, pools and settings for a machine, and a judge of layouts.
//!
//! Promise: a fact that is missing never counts as "fine", and a healthy system is met with silence.

pub mod advice;
mod database_settings;
pub mod figures;
pub mod finding;
pub mod flow;
pub mod forecast;
mod guard;
#[cfg(test)]
mod healthy;
pub mod levels;
pub mod observation;
pub mod plan;
mod queue_line;
mod redis_settings;
pub mod rules;
pub mod shell;
mod snapshot;
pub mod sql;
pub mod wording;

pub use self::advice::{Advice, Summary, advise};
pub use self::finding::{Assignment, Finding, Severity, SuggestedChange};
pub use self::flow::{Drain, Flow};
pub use self::forecast::{Between, Forecast};
pub use self::observation::{Fact, Missing, Observation};
pub use self::snapshot::ObservedSnapshot;
