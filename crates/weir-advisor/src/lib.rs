//! Diagnoses a job system: what is wrong, how long until the backlog is empty, and which line of
//! which file to change.
//!
//! The crate is pure: [`advise`] turns an [`Observation`] into [`Advice`]. It uses no sockets, no
//! clocks and no files; other crates collect the observation.
//!
//! - [`observation`]: all facts that can be known, each with a reason when it is missing;
//! - [`flow`]: growth and time to drain of a queue, from two samples;
//! - [`forecast`]: time to drain of all queues, given which processes serve them;
//! - [`rules`]: one file per kind of problem;
//! - `guard`, `budget`: remove actions that would leave a queue unserved, or that need more database
//!   connections than are free; `placeholders`: actions that cannot be used unchanged become
//!   instructions; `contradictions`: removes lines that undo an earlier one; `alternatives`: says
//!   where a command is not available;
//! - [`finding`], `action`, [`advice`]: the output;
//! - [`durability`]: what a Redis may lose of the jobs that Weir has acknowledged;
//! - [`wording`]: figures for people; [`shell`], [`sql`]: commands that can be pasted;
//! - [`levels`]: goodput by number of busy threads;
//! - [`mod@figures`]: observation and findings as metrics;
//! - [`mod@plan`]: computes processes, pools and settings for a machine, and checks layouts.
//!
//! A missing fact never counts as "fine", and a healthy system yields no findings.

mod action;
pub mod advice;
mod alternatives;
mod budget;
mod contradictions;
mod database_settings;
pub mod durability;
pub mod figures;
pub mod finding;
pub mod flow;
pub mod forecast;
mod guard;
#[cfg(test)]
mod healthy;
pub mod levels;
pub mod observation;
mod placeholders;
pub mod plan;
#[cfg(test)]
mod property;
mod queue_line;
mod redis_settings;
pub mod rules;
pub mod shell;
mod snapshot;
pub mod sql;
mod verdict;
pub mod wording;

pub use self::action::{Action, Assignment, LineChange};
pub use self::advice::{Advice, Summary, advise};
pub use self::finding::{Confidence, Finding, Severity, Since};
pub use self::flow::{Drain, Flow};
pub use self::forecast::{Between, Forecast};
pub use self::observation::{Fact, Missing, Observation};
pub use self::snapshot::ObservedSnapshot;
pub use self::verdict::{Verdict, VerdictFinding};
